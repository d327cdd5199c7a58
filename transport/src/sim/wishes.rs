//! When a host wants to be called, and the events that see to it.

use crate::{Deadline, Instant, Timer};

/// How often a host may be called by timers within one moment before the run gives up.
const CALLS_WITHIN_A_MOMENT: u32 = 1_000;

/// What a host has asked for. All moments are in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// The machine's.
    deadline: Option<Deadline>,
    /// The application's.
    appointment: Option<u64>,
    /// The moments of all scheduled `Timer` events, the next one last.
    alarms: Vec<u64>,
    /// The moment of the last call by a timer, and how many there were within it.
    called: (u64, u32),
}

impl Wishes {
    /// Replaces both wishes.
    pub(super) fn set(&mut self, deadline: Option<Deadline>, appointment: Option<Instant>) {
        (self.deadline, self.appointment) = (deadline, appointment.map(Instant::as_nanos));
    }

    /// What the machine has asked for.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    /// When the host has to be called next, by whichever wish comes first.
    pub(super) fn next(&self) -> Option<u64> {
        let deadline = self.deadline.map(|deadline| deadline.at.as_nanos());
        match (deadline, self.appointment) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The moment for which a `Timer` event is missing.
    ///
    /// An event that is early enough is left to look again, so a deadline that moves back costs nothing. With slack it
    /// rings at the next of the moments that lie so far apart.
    pub(super) fn missing_alarm(&mut self, now: u64, slack: u64) -> Option<u64> {
        let next = self.next()?.max(now);
        let next = next.checked_next_multiple_of(slack.max(1)).unwrap_or(next);
        if self.alarms.last().is_some_and(|&alarm| alarm <= next) {
            return None;
        }
        self.alarms.push(next);
        Some(next)
    }

    /// A `Timer` event has happened: the earliest of those scheduled. Whether the host is to be called.
    pub(super) fn alarm_rang(&mut self, now: u64) -> bool {
        self.alarms.pop();
        self.next().is_some_and(|next| next <= now)
    }

    /// Counts a call by a timer; true if there have been too many without time passing.
    pub(super) fn called_too_often(&mut self, now: u64) -> bool {
        self.called = match self.called {
            (at, calls) if at == now => (at, calls + 1),
            _ => (now, 1),
        };
        self.called.1 > CALLS_WITHIN_A_MOMENT
    }

    /// The machine's timer that is due; `None` if it is the application.
    pub(super) fn due_timer(&self, now: u64) -> Option<Timer> {
        let deadline = self.deadline?;
        (deadline.at.as_nanos() <= now).then_some(deadline.why)
    }
}
