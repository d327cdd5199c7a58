//! The loop that runs one machine on one [`Link`].

mod busy_poll;
mod coalescing;
pub(crate) mod rounds;

use crate::link::{Blocked, Interest, Link, Waiter};
use crate::{Instant, Machine, TimeSource};
use busy_poll::poll_until;
use rounds::{Rest, Rounds};
use std::ops::ControlFlow;
use std::time::Duration;

const FLUSH_LIMIT: Duration = Duration::from_millis(100);

/// Runs `machine` on `link` until `application` breaks, and returns the value it broke with.
///
/// Each round: a bounded batch of arrived frames, timers, one call of `application`, a bounded
/// batch of frames to send. If nothing arrived and nothing left, it waits until a frame arrives (or
/// several: [`Link::receive_coalescing`]), there is room to send again, the machine's next
/// deadline, or [`Waiter::wake`]; an urgent machine's loop first polls for frames for a while
/// ([`Link::busy_poll`]). `application` moves its data in and out of the machine; it must not
/// block. One clock reading serves a whole round.
///
/// After a break, frames left over and the machine's remaining output (up to one batch of frames)
/// are sent, for at most 100 ms; frames that have not left then are lost, as on a cable.
///
/// # Errors
/// The link's own.
pub fn drive<L: Link, M: Machine, T>(
    link: &mut L,
    machine: &mut M,
    waiter: &L::Waiter,
    clock: &impl TimeSource,
    mut application: impl FnMut(&mut M, Instant) -> ControlFlow<T>,
) -> Result<T, L::Error> {
    let mut rounds = Rounds::new(link);
    loop {
        let now = clock.now();
        rounds.receive(link, machine, now);
        if let ControlFlow::Break(value) = application(machine, now) {
            flush(link, machine, waiter, clock);
            return Ok(value);
        }
        rounds.send(link, machine, now)?;
        match rounds.rest(link, machine, clock, machine.is_urgent()) {
            Rest::None => {}
            Rest::BusyPoll(end) => {
                let ready = || link.has_arrival() || waiter.take_wake();
                let (ended, longest_pause) = poll_until(end, clock, || waiter.yield_now(), ready);
                rounds.looked(ended, longest_pause);
            }
            Rest::Wait(now, wanted) => link.waited(waiter.wait(now, wanted))?,
        }
    }
}

pub(crate) fn flush<L: Link, M: Machine>(link: &mut L, machine: &mut M, waiter: &L::Waiter, clock: &impl TimeSource) {
    match send_last(link, machine, waiter, clock) {
        Ok(true) => {}
        Ok(false) => log::warn!("{}: the last frames did not leave within {FLUSH_LIMIT:?}", link.name()),
        Err(error) => log::warn!("the last frames did not leave: {error}"),
    }
}

fn send_last<L: Link, M: Machine>(
    link: &mut L,
    machine: &mut M,
    waiter: &L::Waiter,
    clock: &impl TimeSource,
) -> Result<bool, L::Error> {
    let end = clock.now() + FLUSH_LIMIT;
    let mut asked = false;
    loop {
        let (now, ask) = (clock.now(), !asked);
        link.send(now, |buffer| {
            asked = true;
            if ask { machine.poll_transmit(now, buffer) } else { None }
        })?;
        let Some(blocked) = link.blocked() else { return Ok(true) };
        if now >= end {
            return Ok(false);
        }
        let until = if let Blocked::Until(moment) = blocked { moment.min(end) } else { end };
        let wanted = Interest { arrivals: false, room: blocked == Blocked::Room, until: Some(until) };
        link.waited(waiter.wait(now, wanted))?;
    }
}
