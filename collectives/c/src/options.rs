//! How to join, send and receive: one set of named options, so that new ones need no new layout.

use crate::raw::{UserData, text, there};
use crate::status::{Failure, Status, call};
use ethbcast_collectives::communicator::Options as JoinOptions;
use ethbcast_collectives::session::{Options as SessionOptions, Progress};
use ethbcast_collectives::{Route, communicator};
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::file::SavedPlan;
use ethbcast_planning::topology::{Topology, nodeset};
use std::ffi::{CString, c_char, c_void};
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// Options for joining, sending and receiving; without any, all is as is right for one Ethernet interface and hosts
/// with names of their own. Calls copy them.
#[derive(Default)]
pub struct Options {
    join: JoinOptions,
    session: SessionOptions,
    /// What was set and is for communicators, or for sessions, alone.
    only_join: Option<&'static str>,
    only_session: Option<&'static str>,
}

/// Whom an option is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Both,
    Join,
    Session,
}

const NAMES: [(&str, For); 18] = [
    ("interface", For::Both),
    ("host", For::Both),
    ("ether-type", For::Both),
    ("topology", For::Both),
    ("calibration", For::Both),
    ("plan", For::Both),
    ("via", For::Both),
    ("probe", For::Both),
    ("join-within", For::Join),
    ("call-within", For::Join),
    ("spin", For::Join),
    ("casts", For::Join),
    ("receivers", For::Session),
    ("min-receivers", For::Session),
    ("hosts", For::Session),
    ("max-wait", For::Session),
    ("time-limit", For::Session),
    ("source", For::Session),
];

impl Options {
    /// Those of a communicator.
    pub fn join(options: Option<&Options>) -> Result<JoinOptions, Failure> {
        let Some(options) = options else { return Ok(JoinOptions::default()) };
        options.only_session.map_or(Ok(()), |name| misplaced(name, "sending and receiving"))?;
        Ok(options.join.clone())
    }

    /// Those of a session.
    pub fn session(options: Option<&Options>) -> Result<SessionOptions, Failure> {
        let Some(options) = options else { return Ok(SessionOptions::new()) };
        options.only_join.map_or(Ok(()), |name| misplaced(name, "communicators"))?;
        Ok(options.session.clone())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let Some(&(name, whose)) = NAMES.iter().find(|(known, _)| *known == name) else {
            let known = NAMES.map(|(name, _)| name).join(", ");
            return Err(Failure::usage(format_args!("there is no option {name}: use one of {known}")));
        };
        let (join, session) = (&mut self.join, &mut self.session);
        match name {
            "interface" => (join.interface, session.interface) = (Some(value.into()), Some(value.into())),
            "host" => (join.host, session.host) = (Some(value.into()), Some(value.into())),
            "ether-type" => {
                join.ether_type = parsed(name, value)?;
                session.ether_type = join.ether_type;
            }
            "topology" => {
                join.topology = Some(Topology::load(value).map_err(Failure::usage)?.topology);
                session.topology.clone_from(&join.topology);
            }
            "calibration" => {
                join.calibration = Some(Calibration::load(value).map_err(Failure::usage)?);
                session.calibration.clone_from(&join.calibration);
            }
            "plan" | "via" => {
                join.route = route(name, value)?;
                session.route = join.route.clone();
            }
            "probe" => (join.probe, session.probe) = (parsed(name, value)?, parsed(name, value)?),
            "join-within" => join.join_within = seconds(name, value)?,
            "call-within" => join.call_within = seconds(name, value)?,
            "spin" => join.spin = seconds(name, value)?,
            "casts" => join.casts = parsed(name, value)?,
            "receivers" => session.receivers = Some(parsed(name, value)?),
            "min-receivers" => session.min_receivers = Some(parsed(name, value)?),
            "hosts" => session.hosts = nodeset::expand(value).map_err(Failure::usage)?,
            "max-wait" => session.max_wait = Some(seconds(name, value)?),
            "time-limit" => session.time_limit = Some(seconds(name, value)?),
            _ => session.source = value.into(),
        }
        match whose {
            For::Both => {}
            For::Join => self.only_join = Some(name),
            For::Session => self.only_session = Some(name),
        }
        Ok(())
    }
}

fn misplaced(name: &str, whom: &str) -> Result<(), Failure> {
    Err(Failure::usage(format_args!("the option {name} is for {whom}: use options of their own for this call")))
}

fn parsed<T: FromStr<Err: Display>>(name: &str, value: &str) -> Result<T, Failure> {
    value.parse().map_err(|error| Failure::usage(format_args!("the option {name} cannot be {value:?}: {error}")))
}

fn seconds(name: &str, value: &str) -> Result<Duration, Failure> {
    duration(parsed(name, value)?)
        .ok_or_else(|| Failure::usage(format_args!("the option {name} cannot be {value:?}: give seconds, such as 2.5")))
}

/// So many seconds, if that is a time.
pub fn duration(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

fn route(name: &str, value: &str) -> Result<Route, Failure> {
    Ok(match (name, value) {
        ("plan", path) => Route::Saved(Box::new(SavedPlan::load(path).map_err(Failure::usage)?)),
        (_, "auto") => Route::Auto,
        (_, via) => Route::Via(parsed(name, via)?),
    })
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
/// spin (seconds), casts (true, false). For sessions: receivers, min-receivers, hosts (such as n[1-7]), max-wait,
/// time-limit (seconds), source (what receivers are told of the bytes).
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_options_set(
    options: Option<&mut Options>,
    name: *const c_char,
    value: *const c_char,
) -> Status {
    call(|| there(options, "set of options")?.set(text(name, "option's name")?, text(value, "option's value")?))
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
        options.session = std::mem::take(&mut options.session).on_progress(move |event| {
            // Whole, or the closure would take the pointer alone.
            let UserData(user) = { user };
            if let Progress::Moved { bytes, slowest } = event {
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
        there(options, "set of options")?.session.cancel.cancel();
        Ok(())
    })
}

/// Joins with a set of options; the Rust library's own words if it fails.
pub fn join(group: &str, size: u16, options: Option<&Options>) -> Result<communicator::Communicator, Failure> {
    Ok(communicator::Communicator::join_with(group, size, &Options::join(options)?)?)
}
