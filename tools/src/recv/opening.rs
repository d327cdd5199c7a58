//! Opening of DEST and the port, with a wait for a missing device or interface.

use crate::args::{RecvArgs, WireArgs};
use crate::interface::chosen;
use crate::progress::Bar;
use crate::session::{failure, may_pass};
use ethbcast_collectives::session::{RecvOptions, Session};
use ethbcast_content::dest::{Dest, lacking_device};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Resolves DEST. With --max-wait it waits for a missing device, whose driver may be late.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) with code 2 or 4.
pub fn dest(args: &RecvArgs, options: &mut RecvOptions, bar: &Bar) -> anyhow::Result<Dest> {
    let (began, mut told) = (Instant::now(), false);
    let limit = limit(options).unwrap_or_default();
    let path = args.dest.as_deref().map(Path::new).filter(|path| path.is_absolute());
    loop {
        let error = match super::dest(args) {
            Ok(dest) => {
                take_off(options, began.elapsed());
                return Ok(dest);
            }
            Err(error) => error,
        };
        let left = limit.saturating_sub(began.elapsed());
        let is_late = path.is_some_and(|path| !path.exists() && lacking_device(path).is_some());
        if left.is_zero() || !is_late {
            return Err(error);
        }
        if !std::mem::replace(&mut told, true) {
            bar.line(format!("{error}; it is waited for"));
        }
        thread::sleep(left.min(POLL_INTERVAL));
    }
}

/// Returns the longest wait for a missing device or interface.
fn limit(options: &RecvOptions) -> Option<Duration> {
    options.max_wait.map(|limit| options.run.time_limit.map_or(limit, |other| limit.min(other)))
}

/// Opens the port. With --max-wait or --timeout it waits for a missing interface, and subtracts the
/// wait from both.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) with code 2 (group name) or 4 (interface, permission).
pub fn open(args: &WireArgs, options: &mut RecvOptions, bar: &Bar) -> anyhow::Result<Session> {
    let (began, mut told) = (Instant::now(), false);
    let limit = limit(options);
    loop {
        let error = match Session::open_receiver(&args.group, options) {
            Ok(session) => {
                take_off(options, began.elapsed());
                return Ok(session);
            }
            Err(error) => error,
        };
        let left = limit.unwrap_or_default().saturating_sub(began.elapsed());
        if left.is_zero() || !may_pass(&error) {
            return Err(failure(error).into());
        }
        if !std::mem::replace(&mut told, true) {
            bar.line(format!("{error}; it is waited for"));
        }
        thread::sleep(left.min(POLL_INTERVAL));
        options.wire.interface = chosen(args.interface.as_deref(), args.quiet);
    }
}

/// Subtracts a wait from the options' limits.
fn take_off(options: &mut RecvOptions, passed: Duration) {
    for limit in [&mut options.max_wait, &mut options.run.time_limit] {
        *limit = limit.map(|limit| limit.saturating_sub(passed));
    }
}
