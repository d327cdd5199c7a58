//! The event loop that runs one protocol state machine on one network link.
//!
//! [`Rounds`] are common to it and to `packet::Shared`: each receives arrived frames, runs
//! timers and, after the application, sends; then the loop rests.

use crate::{Deadline, Instant, Machine, TimeSource};
mod waiting;

use crate::link::{Blocked, Interest, Link, Waiter};
use std::ops::ControlFlow;
use std::time::Duration;
use waiting::{BusyPoll, Coalescing, poll_until};

const FLUSH_LIMIT: Duration = Duration::from_millis(100);

/// Runs `machine` on `link` until `application` breaks, and returns the value it broke with.
///
/// Each round: a bounded batch of arrived frames, timers, one call of `application`, a bounded batch of frames to
/// send. If nothing arrived and nothing left, the loop waits for one of these: a frame (or several:
/// [`Link::receive_coalescing`]), room to send again, the machine's next deadline, or [`Waiter::wake`]. If the
/// machine is urgent, the loop first polls for frames for a while ([`Link::busy_poll`]). `application` moves its data
/// in and out of the machine; it must not block. One clock reading serves a whole round.
///
/// After a break, frames left over and the machine's remaining output (up to one batch of frames) are sent, for at
/// most 100 ms. Frames that have not left by then are lost, as on a cable.
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

/// Wait for a machine whose deadline has passed and stays: it needs room to send, which ends the
/// wait anyway.
const OVERDUE_WAIT: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Rounds {
    coalescing: Coalescing,
    busy_poll: BusyPoll,
    received: usize,
    due: Option<Deadline>,
    sent: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    None,
    BusyPoll(Instant),
    Wait(Instant, Interest),
}

impl Rounds {
    pub(crate) fn new(link: &impl Link) -> Self {
        let (coalescing, busy_poll) = (Coalescing::new(link.receive_coalescing()), BusyPoll::new(link.busy_poll()));
        Rounds { coalescing, busy_poll, received: 0, due: None, sent: 0 }
    }

    pub(crate) fn receive<L: Link, M: Machine>(&mut self, link: &mut L, machine: &mut M, now: Instant) -> bool {
        self.received = link.receive(|frame| machine.handle_frame(now, frame));
        self.due = machine.poll_timeout(now).filter(|deadline| deadline.at <= now);
        if self.due.is_some() {
            machine.handle_timeout(now);
        }
        self.received > 0 || self.due.is_some()
    }

    pub(crate) fn send<L: Link, M: Machine>(
        &mut self,
        link: &mut L,
        machine: &mut M,
        now: Instant,
    ) -> Result<bool, L::Error> {
        let transmitted = link.transmit(now, machine)?;
        self.sent = transmitted.frames;
        self.coalescing.round(now, self.received, self.sent);
        if self.have_moved() {
            self.busy_poll.moved(now);
        }
        Ok(!transmitted.exhausted && link.blocked().is_none())
    }

    fn have_moved(&self) -> bool {
        self.received > 0 || self.sent > 0
    }

    pub(crate) fn rest<L: Link, M: Machine>(
        &mut self,
        link: &L,
        machine: &M,
        clock: &impl TimeSource,
        in_a_hurry: bool,
    ) -> Rest {
        let room = link.blocked() == Some(Blocked::Room);
        if self.have_moved() {
            // Only a wait reveals that there is room to send again, so a loop that never waits must
            // check here.
            let look = Interest { arrivals: false, room, until: Some(Instant::START) };
            return if room { Rest::Wait(Instant::START, look) } else { Rest::None };
        }
        let now = clock.now();
        let limit = self.limit(link, machine, now);
        let nap = if machine.is_urgent() { None } else { self.coalescing.nap(now, limit) };
        let poll_until = if in_a_hurry && !room { self.busy_poll.until(now, limit) } else { None };
        match (nap, poll_until) {
            (Some(nap), _) => Rest::Wait(now, Interest { arrivals: false, room, until: Some(now + nap) }),
            (None, Some(end)) => Rest::BusyPoll(end),
            (None, None) => Rest::Wait(now, Interest { arrivals: true, room, until: limit.map(|limit| now + limit) }),
        }
    }

    pub(crate) fn looked(&mut self, now: Instant, longest_pause: Duration) {
        self.busy_poll.looked(now, longest_pause);
    }

    pub(crate) fn limit<L: Link, M: Machine>(&self, link: &L, machine: &M, now: Instant) -> Option<Duration> {
        let handled = |deadline| self.due == Some(deadline);
        let machine =
            machine.poll_timeout(now).map(|next| if handled(next) { OVERDUE_WAIT } else { next.at.since(now) });
        let link = if let Some(Blocked::Until(at)) = link.blocked() { Some(at.since(now)) } else { None };
        machine.into_iter().chain(link).min()
    }
}
