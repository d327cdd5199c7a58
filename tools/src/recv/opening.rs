//! Opening the port: an interface that is down, or not there yet, is waited for as long as a sender would be.

use crate::args::WireArgs;
use crate::interface::chosen;
use crate::progress::Bar;
use crate::session::{failure, may_pass};
use ethbcast_collectives::session::{Options, Session};
use std::thread;
use std::time::{Duration, Instant};

/// How often an interface is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Opens the port. With --max-wait its interface is waited for within that, or within --timeout, and what has passed is
/// taken off both.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) with code 2 (group name) or 4 (interface, permission).
pub fn open(args: &WireArgs, options: &mut Options, bar: &Bar) -> anyhow::Result<Session> {
    let (began, mut told) = (Instant::now(), false);
    let limit = options.max_wait.map(|limit| options.time_limit.map_or(limit, |other| limit.min(other)));
    loop {
        let error = match Session::open(&args.group, options) {
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
        thread::sleep(left.min(LOOK));
        options.interface = chosen(args.interface.as_deref(), args.quiet);
    }
}

/// So much of the time has passed.
fn take_off(options: &mut Options, passed: Duration) {
    for limit in [&mut options.max_wait, &mut options.time_limit] {
        *limit = limit.map(|limit| limit.saturating_sub(passed));
    }
}
