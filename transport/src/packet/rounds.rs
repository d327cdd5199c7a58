//! The rounds of a loop, as [`drive`](super::drive()) and [`Shared`](super::Shared) both make them.
//!
//! A round takes in what has arrived, lets timers run and, after the application's turn, sends; then the loop rests.

use super::busy_poll::BusyPoll;
use super::coalescing::Coalescing;
use super::{Clock, DriveError, Port};
use crate::{Deadline, Instant, Machine};
use std::time::Duration;

/// How long to wait for a machine whose deadline has passed and stays: it waits for room to send, which ends the sleep anyway.
const OVERDUE_WAIT: Duration = Duration::from_millis(1);

/// What a loop remembers from round to round.
pub(super) struct Rounds {
    gather: Coalescing,
    patience: BusyPoll,
    /// Slots emptied by this round.
    received: usize,
    /// The deadline this round has told the machine of.
    due: Option<Deadline>,
    /// Frames that left in this round.
    sent: usize,
}

/// What to do before the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing: there may be more.
    None,
    /// Ask the kernel whether there is room to send again; a loop that never sleeps would never learn.
    Glance,
    /// Look at the ring until then.
    Look(Instant),
    /// Sleep so long through arrivals.
    Nap(Duration),
    /// Sleep until something happens or that moment comes.
    Sleep(Option<Instant>),
}

impl Rounds {
    /// For a loop on `port`.
    pub(super) fn new(port: &Port) -> Self {
        let config = port.config();
        let (gather, patience) = (Coalescing::new(config.gather), BusyPoll::new(config.spin));
        Rounds { gather, patience, received: 0, due: None, sent: 0 }
    }

    /// Hands over a batch of arrived frames, and the time if a deadline has passed; whether there was any of that.
    pub(super) fn take_in<M: Machine>(&mut self, port: &mut Port, machine: &mut M, now: Instant) -> bool {
        self.received = port.receive(|frame| machine.handle_frame(now, frame));
        self.due = machine.poll_timeout(now).filter(|deadline| deadline.at <= now);
        if self.due.is_some() {
            machine.handle_timeout(now);
        }
        self.received > 0 || self.due.is_some()
    }

    /// Sends a batch of what the machine has to say.
    pub(super) fn send<M: Machine>(&mut self, port: &mut Port, machine: &mut M, now: Instant) -> Result<(), DriveError> {
        self.sent = port.transmit(machine, now)?;
        self.gather.round(now, self.received);
        if self.have_moved() {
            self.patience.moved(now);
        }
        Ok(())
    }

    /// Whether frames came or left in this round.
    pub(super) fn have_moved(&self) -> bool {
        self.received > 0 || self.sent > 0
    }

    /// Whether so many left in this round that there may be more.
    pub(super) fn have_filled(&self, port: &Port) -> bool {
        self.sent >= port.batch_frames()
    }

    /// What to do after a round; to look before sleeping is for those `in_a_hurry`.
    pub(super) fn rest<M: Machine>(&mut self, port: &Port, machine: &M, clock: &Clock, in_a_hurry: bool) -> Rest {
        if self.have_moved() {
            return if port.awaits_writable() { Rest::Glance } else { Rest::None };
        }
        let now = clock.now();
        let limit = self.limit(port, machine, now);
        let nap = if machine.is_urgent() { None } else { self.gather.nap(now, limit) };
        // Only poll(2) can tell that there is room to send again.
        let look = if in_a_hurry && !port.awaits_writable() { self.patience.until(now, limit) } else { None };
        match (nap, look) {
            (Some(nap), _) => Rest::Nap(nap),
            (None, Some(end)) => Rest::Look(end),
            (None, None) => Rest::Sleep(limit.map(|limit| now + limit)),
        }
    }

    /// How long to rest: until the machine's or the port's moment, whichever is first; `None` if there is none.
    pub(super) fn limit<M: Machine>(&self, port: &Port, machine: &M, now: Instant) -> Option<Duration> {
        let handled = |deadline| self.due == Some(deadline);
        let machine = machine.poll_timeout(now).map(|next| if handled(next) { OVERDUE_WAIT } else { next.at.since(now) });
        let port = port.retry_at().map(|at| at.since(now));
        machine.into_iter().chain(port).min()
    }
}
