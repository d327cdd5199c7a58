//! The loop that runs one machine on one port.

use super::busy_poll::look_until;
use super::error::DriveError;
use super::rounds::{Rest, Rounds};
use super::sleep::Sleeper;
use super::{Clock, Port, Waker};
use crate::{Instant, Machine};
use std::ops::ControlFlow;
use std::time::Duration;

/// How long the last frames may take to leave after the application has ended the loop.
const FLUSH_LIMIT: Duration = Duration::from_millis(100);

/// Runs `machine` on `port` until `turn` breaks, and returns what it broke with.
///
/// Each round: a bounded batch of arrived frames, timers, one `turn`, a bounded batch of frames to send. If nothing
/// arrived and nothing left, it sleeps until a frame arrives (or several: [`PortConfig::gather`](super::PortConfig::gather)),
/// there is room to send again, the machine's next deadline, or `waker`; an urgent machine's loop first looks at the ring for a while
/// ([`PortConfig::spin`](super::PortConfig::spin)). In `turn` the application moves its data in and out of the machine; it must not
/// block. One clock reading serves a whole round.
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
    let sleeper = Sleeper::new(waker.clone()).map_err(|errno| DriveError::new(&port.interface().name, "set a timer", errno))?;
    let mut rounds = Rounds::new(port);
    loop {
        let now = clock.now();
        rounds.take_in(port, machine, now);
        if let ControlFlow::Break(value) = turn(machine, now) {
            finish(port, machine, clock);
            return Ok(value);
        }
        rounds.send(port, machine, now)?;
        match rounds.rest(port, machine, clock, machine.is_urgent()) {
            Rest::None => {}
            Rest::Glance => port.wait_to_send(Duration::ZERO)?,
            Rest::Look(end) => look(port, waker, clock, end),
            Rest::Nap(nap) => port.nap(&sleeper, nap)?,
            Rest::Sleep(end) => port.wait(&sleeper, end, clock)?,
        }
    }
}

/// Looks at the ring, and for wakes, until `end`.
fn look(port: &Port, waker: &Waker, clock: &Clock, end: Instant) {
    look_until(end, clock, || port.has_arrival() || waker.is_pending());
    if waker.is_pending() {
        waker.acknowledge();
    }
}

/// Sends the last frames; failing to is no failure of what the loop was run for.
pub(super) fn finish<M: Machine>(port: &mut Port, machine: &mut M, clock: &Clock) {
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
