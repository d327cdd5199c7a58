//! C interface to one-to-many transfers: bytes from one host to all others, verified.

use crate::raw::{self, UserData, bytes, bytes_mut, file, text, there};
use crate::status::{Failure, Status, call};
use ethbcast_collectives::NamedOptions;
use ethbcast_collectives::lock::Mutex;
use ethbcast_collectives::session::live::{Content, Room};
use ethbcast_collectives::session::{Progress, ReceiveReport, SendReport, Session};
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The result of a session.
#[repr(C)]
#[derive(Default)]
pub struct Report {
    /// Bytes that were sent or received.
    pub bytes: u64,
    /// Seconds from the first data frame to the last verdict.
    pub seconds: f64,
    /// BLAKE3 digest of the bytes.
    pub blake3: [u8; 32],
    /// At a sender: number of receivers that have verified the bytes.
    pub receivers: u32,
    /// At a sender: number of hosts of other networks that have verified them, behind relays.
    pub behind: u32,
    /// Bytes that travelled to all, with hash lists: fewer than `bytes` where receivers had an
    /// earlier version, with the option delta.
    pub travelled: u64,
}

/// Sends the content of a file descriptor, from its present position on, to the receivers of
/// `group`, and returns when all of them have verified it. The descriptor stays open. `options`
/// says for whom to wait (receivers, min-receivers or hosts); `report` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_send_fd(
    group: *const c_char,
    descriptor: c_int,
    options: *const Options,
    report: Option<&mut Report>,
) -> Status {
    call(|| {
        let (group, options) = (text(group, "group's name")?, named(options)?.send()?);
        sent(
            Session::send_file(group, file(descriptor)?, &options)?,
            report,
        )
    })
}

/// Sends a buffer, like `ethbcast_send_fd`.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_send_buffer(
    group: *const c_char,
    data: *const c_void,
    length: usize,
    options: *const Options,
    report: Option<&mut Report>,
) -> Status {
    call(|| {
        let (group, options) = (text(group, "group's name")?, named(options)?.send()?);
        let lent = Lent {
            bytes: bytes(data, length)?,
            users: Arc::new(()),
        };
        let ended = Session::send(group, Content::of_memory(lent.clone()), &options);
        // A thread that reads bytes again may still do so: they are the caller's afterwards.
        while Arc::strong_count(&lent.users) > 1 {
            thread::sleep(Duration::from_millis(1));
        }
        sent(ended?, report)
    })
}

/// The caller's bytes, and who still uses them.
#[derive(Clone)]
struct Lent {
    bytes: &'static [u8],
    users: Arc<()>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.bytes
    }
}

/// Receives the bytes sent to `group` and writes them to a file descriptor as they come; it stays
/// open. Only ETHBCAST_STATUS_OK means that all bytes have arrived and are the sender's. `options`
/// and `report` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_receive_fd(
    group: *const c_char,
    descriptor: c_int,
    options: *const Options,
    report: Option<&mut Report>,
) -> Status {
    call(|| {
        let (group, options) = (text(group, "group's name")?, named(options)?.receive()?);
        received(
            &Session::receive(group, file(descriptor)?, &options)?,
            report,
        )
    })
}

/// Receives into a buffer; a sender that has more bytes is refused. With the option delta the
/// buffer holds an earlier version, of which only what has changed comes, in place.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_receive_buffer(
    group: *const c_char,
    buffer: *mut c_void,
    length: usize,
    options: *const Options,
    report: Option<&mut Report>,
) -> Status {
    call(|| {
        let (group, named) = (text(group, "group's name")?, named(options)?);
        let (is_delta, mut options) = (named.is_delta(), named.receive()?);
        options.free_bytes = options.free_bytes.min(length as u64);
        let memory = bytes_mut(buffer, length)?;
        let ended = match is_delta {
            true => Session::receive_over(group, memory, &options).1,
            false => Session::receive_into(group, Room::of(memory), &options),
        };
        received(&ended?, report)
    })
}

fn sent(from: SendReport, report: Option<&mut Report>) -> Result<(), Failure> {
    if let Some(report) = report {
        let blake3 = from.trailer.map_or([0; 32], |trailer| trailer.digest);
        let (seconds, receivers) = (from.took.as_secs_f64(), from.verified() as u32);
        let (bytes, travelled) = (from.bytes(), from.sent_bytes.unwrap_or(from.bytes()));
        *report = Report {
            bytes,
            seconds,
            blake3,
            receivers,
            behind: from.behind() as u32,
            travelled,
        };
    }
    Ok(())
}

fn received(from: &ReceiveReport, report: Option<&mut Report>) -> Result<(), Failure> {
    if let Some(report) = report {
        let blake3 = from
            .verdict
            .as_ref()
            .map_or([0; 32], |verdict| verdict.digest);
        let (bytes, travelled) = (from.bytes(), from.came_bytes.unwrap_or(from.bytes()));
        *report = Report {
            bytes,
            seconds: from.took.as_secs_f64(),
            blake3,
            receivers: 0,
            behind: 0,
            travelled,
        };
    }
    Ok(())
}

/// Options for joining, sending and receiving. The defaults suit one Ethernet interface and hosts
/// with different names. Calls copy them.
#[derive(Default)]
pub struct Options {
    named: Mutex<NamedOptions>,
}

/// Returns the options of a call; null stands for the defaults.
pub fn named(options: *const Options) -> Result<NamedOptions, Failure> {
    if options.is_null() {
        return Ok(NamedOptions::default());
    }
    Ok(raw::handle(options, SET)?.named.lock().clone())
}

const SET: &str = "set of options";

/// Makes a set of options. Free it with ethbcast_options_free.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_options_new(options: Option<&mut *mut Options>) -> Status {
    call(|| {
        let place = there(options, "place for the options")?;
        *place = raw::keep(Options::default());
        Ok(())
    })
}

/// Frees a set of options; null is allowed, and one that is freed is left alone.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_options_free(options: *mut Options) {
    drop(raw::free(options, SET));
}

/// Sets one of them, both texts. For all: interface (a name, a MAC or IP address, or a network such
/// as 10.1.0.0/16), host, ether-type (hexadecimal), over (ethernet, udp, unicast), topology,
/// calibration and plan (files), via (auto, chain, cast, binary, ...), preset (default, paper,
/// push-pull), probe, unkeyed (true, false), mtu, priority (0 to 7), ttl, dead-after (seconds), key
/// (a file, or auto: this host's), key-phrase. For communicators: join-within, call-within, spin
/// (seconds), casts (true, false). For sessions: receivers, min-receivers, hosts (n[1-7] or ^FILE),
/// max-wait, time-limit, patience, stall, sync-timeout, slow-after, carousel (seconds), on-slow (demote,
/// wait, evict), rate (400mbit), chunk (16K to 128K), nice, greedy, late, once, delta (true,
/// false), source (a description of the bytes, for receivers), sender (whom a receiver asks over
/// unicast: an address or a name).
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_options_set(
    options: *mut Options,
    name: *const c_char,
    value: *const c_char,
) -> Status {
    call(|| {
        let options = raw::handle(options, SET)?;
        let mut named = options.named.lock();
        Ok(named.set(text(name, "option's name")?, text(value, "option's value")?)?)
    })
}

/// Sets a callback for progress: the bytes that are there (at a sender, at the slowest receiver),
/// and at a sender the slowest receiver's name, else null. It is called by the thread that runs the
/// session, and must not block.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_options_on_progress(
    options: *mut Options,
    progress: Option<extern "C" fn(bytes: u64, slowest: *const c_char, user: *mut c_void)>,
    user: *mut c_void,
) -> Status {
    call(|| {
        let (options, progress) = (raw::handle(options, SET)?, there(progress, "callback")?);
        let user = UserData(user);
        options.named.lock().on_progress(move |event| {
            // Capture the whole struct: a closure would otherwise capture only the pointer.
            let UserData(user) = { user };
            if let Progress::Moved { bytes, slowest, .. } = event {
                let name = slowest.and_then(|(host, _)| CString::new(host).ok());
                progress(
                    bytes,
                    name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr()),
                    user,
                );
            }
        });
        Ok(())
    })
}

/// Ends all sessions that were begun with these options, now and later, from any thread (but no
/// signal handler): the other hosts are notified.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_options_cancel(options: *const Options) -> Status {
    call(|| {
        raw::handle(options, SET)?.named.lock().cancel();
        Ok(())
    })
}
