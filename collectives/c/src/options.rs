//! Options of joining, sending and receiving: one set of named options, so that new ones need no
//! new layout.

use crate::raw::{UserData, text, there};
use crate::status::{Failure, Status, call};
use ethbcast_collectives::NamedOptions;
use ethbcast_collectives::communicator::Options as JoinOptions;
use ethbcast_collectives::session::{Progress, RecvOptions, SendOptions};
use std::ffi::{CString, c_char, c_void};

/// Options for joining, sending and receiving; without any, all is as is right for one Ethernet interface and hosts
/// with names of their own. Calls copy them.
#[derive(Default)]
pub struct Options {
    named: NamedOptions,
}

impl Options {
    /// Returns the options to join a communicator with.
    pub fn join(options: Option<&Options>) -> Result<JoinOptions, Failure> {
        Ok(options.map_or_else(|| Ok(JoinOptions::default()), |options| options.named.join())?)
    }

    /// Returns the options of a sender.
    pub fn send(options: Option<&Options>) -> Result<SendOptions, Failure> {
        Ok(options.map_or_else(|| Ok(SendOptions::new()), |options| options.named.send())?)
    }

    /// Returns the options of a receiver.
    pub fn receive(options: Option<&Options>) -> Result<RecvOptions, Failure> {
        Ok(options.map_or_else(|| Ok(RecvOptions::new()), |options| options.named.receive())?)
    }
}

/// Makes a set of options. Free it with ethbcast_options_free.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_options_new(options: Option<&mut *mut Options>) -> Status {
    call(|| {
        let place = there(options, "place for the options")?;
        *place = Box::into_raw(Box::default());
        Ok(())
    })
}

/// Frees a set of options; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_options_free(options: Option<Box<Options>>) {
    drop(options);
}

/// Sets one of them, both texts. For all: interface, host, ether-type (hexadecimal), topology, calibration and plan
/// (files), via (auto, chain, cast, binary, ...), probe (true, false). For communicators: join-within, call-within,
/// spin (seconds), casts (true, false). For sessions: receivers, min-receivers, hosts (n[1-7] or ^FILE), max-wait,
/// time-limit (seconds), source (what receivers are told of the bytes).
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_options_set(
    options: Option<&mut Options>,
    name: *const c_char,
    value: *const c_char,
) -> Status {
    call(|| {
        let named = &mut there(options, "set of options")?.named;
        Ok(named.set(text(name, "option's name")?, text(value, "option's value")?)?)
    })
}

/// Has `progress` told of bytes as they move: how many are there (at a sender, at the slowest receiver), and at a
/// sender the slowest receiver's name, else null. It is called by the thread that runs the session, and must not block.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_options_on_progress(
    options: Option<&mut Options>,
    progress: Option<extern "C" fn(bytes: u64, slowest: *const c_char, user: *mut c_void)>,
    user: *mut c_void,
) -> Status {
    call(|| {
        let (options, progress) = (there(options, "set of options")?, there(progress, "callback")?);
        let user = UserData(user);
        options.named.on_progress(move |event| {
            // Capture the whole struct: a closure would otherwise capture only the pointer.
            let UserData(user) = { user };
            if let Progress::Moved { bytes, slowest, .. } = event {
                let name = slowest.and_then(|(host, _)| CString::new(host).ok());
                progress(bytes, name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr()), user);
            }
        });
        Ok(())
    })
}

/// Ends all sessions that were begun with these options, now and later, from whatever thread (but no signal handler):
/// the other hosts are told.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_options_cancel(options: Option<&Options>) -> Status {
    call(|| {
        there(options, "set of options")?.named.cancel();
        Ok(())
    })
}
