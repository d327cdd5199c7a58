//! Timers of sessions and communicators.

use ethbcast_transport::{Deadline, Instant, Timer};

/// Event that a machine of this crate waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// An invitation to be sent or awaited.
    Announce,
    /// An unanswered join request, or the wait for candidates.
    Join,
    View,
    Status,
    /// A peer about to be declared dead.
    Silence,
    Verdict,
    /// The time to leave, whatever is still open.
    Leave,
    /// Frames for demoted receivers, which are served by unicast.
    Side,
    /// A change that is collected with others before it is announced.
    Change,
    Fetch,
    /// The root's liveness replies.
    Proof,
}

impl Wait {
    const LABELS: [Timer; 11] = [
        Timer("announce"),
        Timer("join"),
        Timer("view"),
        Timer("status"),
        Timer("silence"),
        Timer("verdict"),
        Timer("leave"),
        Timer("side"),
        Timer("change"),
        Timer("fetch"),
        Timer("proof"),
    ];

    pub(crate) fn at(self, at: Instant) -> Deadline {
        Deadline { at, why: Wait::LABELS[self as usize] }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimerTable {
    due: [Option<Instant>; Wait::LABELS.len()],
}

impl TimerTable {
    pub(crate) fn set(&mut self, wait: Wait, at: Instant) {
        self.due[wait as usize] = Some(at);
    }

    pub(crate) fn set_unless_set(&mut self, wait: Wait, at: Instant) {
        self.due[wait as usize].get_or_insert(at);
    }

    pub(crate) fn clear(&mut self, wait: Wait) {
        self.due[wait as usize] = None;
    }

    pub(crate) fn is_set(&self, wait: Wait) -> bool {
        self.due[wait as usize].is_some()
    }

    /// Whether a timer is due; it is cleared then.
    pub(crate) fn take_due(&mut self, wait: Wait, now: Instant) -> bool {
        self.due[wait as usize].take_if(|at| *at <= now).is_some()
    }

    pub(crate) fn next(&self) -> Option<Deadline> {
        self.due.into_iter().zip(Wait::LABELS).filter_map(|(at, why)| Some(Deadline { at: at?, why })).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_timer_is_next_and_a_timer_taken_is_cleared() {
        let at = Instant::from_nanos;
        let mut timers = TimerTable::default();
        timers.set(Wait::View, at(20));
        timers.set_unless_set(Wait::View, at(10));
        timers.set(Wait::Leave, at(15));
        assert_eq!(timers.next(), Some(Wait::Leave.at(at(15))));
        assert!(timers.take_due(Wait::Leave, at(15)) && !timers.take_due(Wait::Leave, at(99)));
        assert!(!timers.take_due(Wait::View, at(19)) && timers.is_set(Wait::View));
        timers.clear(Wait::View);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn every_timer_has_a_place_of_its_own() {
        let last = Wait::Proof.at(Instant::START);
        assert_eq!((Wait::Proof as usize + 1, last.why), (Wait::LABELS.len(), Timer("proof")));
    }
}
