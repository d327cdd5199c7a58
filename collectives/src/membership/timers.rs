//! The timers of one part: which are set, and for when.

use ethbcast_transport::{Deadline, Instant, Timer};

/// When each timer falls due, by what it is for; a part has few, and one of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimerTable {
    set: Vec<Deadline>,
}

impl TimerTable {
    /// Sets a timer, in place of the moment it was set for.
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        self.clear(timer);
        self.set.push(Deadline { at, why: timer });
    }

    /// Sets a timer unless it is set.
    pub(crate) fn set_if_clear(&mut self, timer: Timer, at: Instant) {
        if !self.is_set(timer) {
            self.set(timer, at);
        }
    }

    pub(crate) fn clear(&mut self, timer: Timer) {
        self.set.retain(|deadline| deadline.why != timer);
    }

    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.set.iter().any(|deadline| deadline.why == timer)
    }

    /// Whether a timer has fallen due by `now`; if so, it is not set any more.
    pub(crate) fn take_due(&mut self, timer: Timer, now: Instant) -> bool {
        let due = self.set.iter().position(|deadline| deadline.why == timer && deadline.at <= now);
        due.map(|at| self.set.swap_remove(at)).is_some()
    }

    /// The timer that falls due next.
    pub(crate) fn next(&self) -> Option<Deadline> {
        self.set.iter().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::{STATUS, VIEW};
    use std::time::Duration;

    #[test]
    fn a_timer_is_set_for_one_moment_and_falls_due_once() {
        let (soon, later) = (Instant::START + Duration::from_millis(1), Instant::START + Duration::from_millis(2));
        let mut timers = TimerTable::default();
        timers.set(VIEW, later);
        timers.set_if_clear(VIEW, soon);
        timers.set(STATUS, later);
        assert_eq!(timers.next(), Some(Deadline { at: later, why: STATUS }));
        timers.set(VIEW, soon);
        assert_eq!(timers.next(), Some(Deadline { at: soon, why: VIEW }));
        assert!(!timers.take_due(STATUS, soon) && timers.take_due(VIEW, soon) && !timers.take_due(VIEW, later));
        timers.clear(STATUS);
        assert!(timers.next().is_none() && !timers.is_set(STATUS));
    }
}
