//! The loop that runs one machine on one port.

use super::error::DriveError;
use super::gather::Gather;
use super::{Clock, Port, Waker};
use crate::{Deadline, Instant, Machine};
use nix::sys::prctl;
use std::ops::ControlFlow;
use std::time::Duration;

/// How long the last frames may take to leave after the application has ended the loop.
const FLUSH_LIMIT: Duration = Duration::from_millis(100);
/// How long to wait for a machine whose deadline has passed and stays: it waits for room to send, which ends the sleep anyway.
const OVERDUE_WAIT: Duration = Duration::from_millis(1);
/// How much later than asked the kernel may wake us: its 50 µs by default are a third of a paced burst at 1 Gbit/s.
const TIMER_SLACK_NANOS: u64 = 1_000;

/// Runs `machine` on `port` until `turn` breaks, and returns what it broke with.
///
/// Each round: a bounded batch of arrived frames, timers, one `turn`, a bounded batch of frames to send. If nothing
/// arrived and nothing left, it sleeps until a frame arrives (or several: [`PortConfig::gather`](super::PortConfig::gather)),
/// there is room to send again, the machine's next deadline, or `waker`. In `turn` the application moves its data in and
/// out of the machine; it must not block. One clock reading serves a whole round.
///
/// After a break, what is staged and what the machine still has to say (up to one batch of frames) is sent, for 100 ms at
/// most; what then has not left is lost, as on a cable.
///
/// # Errors
///
/// See [`DriveError`].
pub fn drive<M: Machine, T>(
    port: &mut Port,
    machine: &mut M,
    waker: &Waker,
    clock: &Clock,
    mut turn: impl FnMut(&mut M, Instant) -> ControlFlow<T>,
) -> Result<T, DriveError> {
    let _slack = TimerSlack::set(TIMER_SLACK_NANOS);
    let mut gather = Gather::new(port.gather());
    loop {
        let now = clock.now();
        let received = port.receive(|frame| machine.handle_frame(now, frame));
        let due = machine.poll_timeout().filter(|deadline| deadline.at <= now);
        if due.is_some() {
            machine.handle_timeout(now);
        }
        if let ControlFlow::Break(value) = turn(machine, now) {
            finish(port, machine, clock);
            return Ok(value);
        }
        let sent = port.transmit(machine, now)?;
        gather.round(now, received);
        if received == 0 && sent == 0 {
            let present = clock.now();
            let limit = sleep_limit(machine.poll_timeout(), due, port.retry_at(), present);
            let nap = if machine.is_urgent() { None } else { gather.nap(present, limit) };
            match nap {
                Some(nap) => port.nap(waker, nap)?,
                None => port.wait(waker, limit)?,
            }
        } else if port.awaits_writable() {
            // A busy loop never sleeps, and so would never learn that it may send again.
            port.wait(waker, Some(Duration::ZERO))?;
        }
    }
}

/// How long to sleep: until the machine's or the port's moment, whichever is first; `None` if there is none.
///
/// `handled` is the deadline the machine has just been told of.
fn sleep_limit(deadline: Option<Deadline>, handled: Option<Deadline>, retry_at: Option<Instant>, now: Instant) -> Option<Duration> {
    let machine = deadline.map(|deadline| if handled == Some(deadline) { OVERDUE_WAIT } else { deadline.at.since(now) });
    let port = retry_at.map(|at| at.since(now));
    machine.into_iter().chain(port).min()
}

/// Sends the last frames; failing to is no failure of what the loop was run for.
fn finish<M: Machine>(port: &mut Port, machine: &mut M, clock: &Clock) {
    match send_last(port, machine, clock) {
        Ok(true) => {}
        Ok(false) => log::warn!("{}: the last frames did not leave within {FLUSH_LIMIT:?}", port.interface().name),
        Err(error) => log::warn!("the last frames did not leave: {error}"),
    }
}

/// Sends what is staged, then one batch of what the machine has left; false if time ran out.
fn send_last<M: Machine>(port: &mut Port, machine: &mut M, clock: &Clock) -> Result<bool, DriveError> {
    let end = clock.now() + FLUSH_LIMIT;
    let mut asked = false;
    loop {
        let now = clock.now();
        if port.has_staged() || asked {
            port.flush(now)?;
        } else {
            port.transmit(machine, now)?;
            asked = true;
        }
        if asked && !port.has_staged() {
            return Ok(true);
        }
        if now >= end {
            return Ok(false);
        }
        if port.has_staged() {
            let moment = port.retry_at().map_or(end, |at| at.min(end));
            port.wait_to_send(moment.since(now))?;
        }
    }
}

/// Gives the thread its old timer slack back.
struct TimerSlack {
    before_nanos: u64,
}

impl TimerSlack {
    /// Asks for precise timers; `None` where the kernel does not allow it, which costs precision only.
    fn set(nanos: u64) -> Option<Self> {
        let before_nanos = u64::try_from(prctl::get_timerslack().ok()?).ok()?;
        prctl::set_timerslack(nanos).ok()?;
        Some(TimerSlack { before_nanos })
    }
}

impl Drop for TimerSlack {
    fn drop(&mut self) {
        // It was settable before, and nothing but precision is at stake.
        let _ = prctl::set_timerslack(self.before_nanos);
    }
}
