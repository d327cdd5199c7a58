//! The rounds of a loop, as [`drive`](super::drive()) and `packet::Shared` both make them.
//!
//! A round receives what has arrived, lets timers run and, after the application, sends; then the loop rests.

use super::busy_poll::BusyPoll;
use super::coalescing::Coalescing;
use crate::link::{Blocked, Interest, Link};
use crate::{Deadline, Instant, Machine, TimeSource};
use std::time::Duration;

/// How long to wait for a machine whose deadline has passed and stays: it waits for room to send, which ends the wait
/// anyway.
const OVERDUE_WAIT: Duration = Duration::from_millis(1);

/// What a loop remembers from round to round.
#[derive(Debug)]
pub(crate) struct Rounds {
    coalescing: Coalescing,
    busy_poll: BusyPoll,
    /// Frames that came in this round.
    received: usize,
    /// The deadline this round has told the machine of.
    due: Option<Deadline>,
    /// Frames that left in this round.
    sent: usize,
}

/// What to do before the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing: there may be more.
    None,
    /// Look for frames until then.
    BusyPoll(Instant),
    /// Wait, from that moment.
    Wait(Instant, Interest),
}

impl Rounds {
    /// For a loop on `link`.
    pub(crate) fn new(link: &impl Link) -> Self {
        let (coalescing, busy_poll) = (Coalescing::new(link.receive_coalescing()), BusyPoll::new(link.busy_poll()));
        Rounds { coalescing, busy_poll, received: 0, due: None, sent: 0 }
    }

    /// Hands over a batch of arrived frames, and the time if a deadline has passed; whether there was any of that.
    pub(crate) fn receive<L: Link, M: Machine>(&mut self, link: &mut L, machine: &mut M, now: Instant) -> bool {
        self.received = link.receive(|frame| machine.handle_frame(now, frame));
        self.due = machine.poll_timeout(now).filter(|deadline| deadline.at <= now);
        if self.due.is_some() {
            machine.handle_timeout(now);
        }
        self.received > 0 || self.due.is_some()
    }

    /// Sends a batch of what the machine has to say; whether it may have more for which there is room.
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

    /// Whether frames came or left in this round.
    fn have_moved(&self) -> bool {
        self.received > 0 || self.sent > 0
    }

    /// What to do after a round; to poll busily before waiting is for those `in_a_hurry`.
    pub(crate) fn rest<L: Link, M: Machine>(
        &mut self,
        link: &L,
        machine: &M,
        clock: &impl TimeSource,
        in_a_hurry: bool,
    ) -> Rest {
        let room = link.blocked() == Some(Blocked::Room);
        if self.have_moved() {
            // Only a wait finds out that there is room to send again, and a loop that never rests would never learn.
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

    /// A busy poll has ended; the longest pause between two of its looks took so long.
    pub(crate) fn looked(&mut self, now: Instant, longest_pause: Duration) {
        self.busy_poll.looked(now, longest_pause);
    }

    /// How long to rest: until the machine's or the link's moment, whichever is first; `None` if there is none.
    pub(crate) fn limit<L: Link, M: Machine>(&self, link: &L, machine: &M, now: Instant) -> Option<Duration> {
        let handled = |deadline| self.due == Some(deadline);
        let machine =
            machine.poll_timeout(now).map(|next| if handled(next) { OVERDUE_WAIT } else { next.at.since(now) });
        let link = if let Some(Blocked::Until(at)) = link.blocked() { Some(at.since(now)) } else { None };
        machine.into_iter().chain(link).min()
    }
}
