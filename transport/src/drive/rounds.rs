//! Rounds of a loop, common to [`drive`](super::drive()) and `packet::Shared`.
//!
//! A round receives arrived frames, runs timers and, after the application, sends; then the loop
//! rests.

use super::busy_poll::BusyPoll;
use super::coalescing::Coalescing;
use crate::link::{Blocked, Interest, Link};
use crate::{Deadline, Instant, Machine, TimeSource};
use std::time::Duration;

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
            // Only a wait finds out that there is room to send again, so a loop that never rests
            // has to check here.
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
