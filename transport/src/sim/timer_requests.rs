//! Timers of a simulated host: when its protocol machine wants to be called.

use crate::{Deadline, Instant, Timer};

const CALLS_WITHIN_A_MOMENT: u32 = 1_000;

#[derive(Debug, Default)]
pub(super) struct TimerRequests {
    deadline: Option<Deadline>,
    appointment: Option<u64>,
    alarms: Vec<u64>,
    called: (u64, u32),
}

impl TimerRequests {
    pub(super) fn set(&mut self, deadline: Option<Deadline>, appointment: Option<Instant>) {
        (self.deadline, self.appointment) = (deadline, appointment.map(Instant::as_nanos));
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    pub(super) fn next(&self) -> Option<u64> {
        let deadline = self.deadline.map(|deadline| deadline.at.as_nanos());
        match (deadline, self.appointment) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Returns the time for which a `Timer` event has to be scheduled, if one is missing.
    ///
    /// An earlier event is kept and checks again when it fires, so a deadline that moves back costs
    /// nothing. With `slack` the time is rounded up to a multiple of it.
    pub(super) fn missing_alarm(&mut self, now: u64, slack: u64) -> Option<u64> {
        let next = self.next()?.max(now);
        let next = next.checked_next_multiple_of(slack.max(1)).unwrap_or(next);
        if self.alarms.last().is_some_and(|&alarm| alarm <= next) {
            return None;
        }
        self.alarms.push(next);
        Some(next)
    }

    pub(super) fn alarm_rang(&mut self, now: u64) -> bool {
        self.alarms.pop();
        self.next().is_some_and(|next| next <= now)
    }

    pub(super) fn called_too_often(&mut self, now: u64) -> bool {
        self.called = match self.called {
            (at, calls) if at == now => (at, calls + 1),
            _ => (now, 1),
        };
        self.called.1 > CALLS_WITHIN_A_MOMENT
    }

    pub(super) fn due_timer(&self, now: u64) -> Option<Timer> {
        let deadline = self.deadline?;
        (deadline.at.as_nanos() <= now).then_some(deadline.why)
    }
}
