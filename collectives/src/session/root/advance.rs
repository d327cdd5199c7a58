//! Detects a member's progress from its status reports.

use crate::session::message::{MemberState, Status};
use ethbcast_transport::Instant;
use std::time::Duration;

/// Length of a comparison period. Reports are compared with the maximum of the last 0.5 to 1 s;
/// members report every 100 ms.
const KEPT: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ReportedProgress {
    arrived: u64,
    consumed: u64,
    phase: u8,
}

impl ReportedProgress {
    fn of(status: &Status) -> ReportedProgress {
        ReportedProgress { arrived: status.arrived, consumed: status.consumed, phase: phase(status.state) }
    }

    fn most(self, other: ReportedProgress) -> ReportedProgress {
        ReportedProgress {
            arrived: self.arrived.max(other.arrived),
            consumed: self.consumed.max(other.consumed),
            phase: self.phase.max(other.phase),
        }
    }
}

/// Maximum that a member has reported recently. A report above it is progress. Comparing with the
/// last report alone would count a replayed old report as a step; comparing with the all-time
/// maximum would let one forged report hide all later progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Advance {
    last: ReportedProgress,
    most: [ReportedProgress; 2],
    ends_at: Instant,
}

impl Advance {
    pub(super) fn new(now: Instant) -> Advance {
        Advance { last: ReportedProgress::default(), most: [ReportedProgress::default(); 2], ends_at: now + KEPT }
    }

    pub(super) fn note(&mut self, now: Instant, status: &Status) -> bool {
        if self.ends_at <= now {
            (self.most, self.ends_at) = ([self.last, self.most[0]], now + KEPT);
        }
        let (word, known) = (ReportedProgress::of(status), self.most[0].most(self.most[1]));
        self.last = word;
        self.most[0] = self.most[0].most(word);
        known.most(word) != known
    }

    pub(super) fn begin(&mut self, status: &Status) {
        self.last = ReportedProgress::of(status);
        self.most = [self.last; 2];
    }
}

pub(super) fn phase(state: MemberState) -> u8 {
    match state {
        MemberState::Alive | MemberState::Blocked | MemberState::Starved | MemberState::WaitsForChild => 0,
        MemberState::Verifying => 1,
        MemberState::Syncing => 2,
        MemberState::Settled => 3,
        MemberState::Done => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn said(arrived: u64, consumed: u64) -> Status {
        Status { arrived, consumed, ..Status::default() }
    }

    #[test]
    fn what_was_said_long_ago_and_is_said_again_makes_no_true_word_progress() {
        let mut advance = Advance::new(at(0));
        assert!((1..=10).all(|step| advance.note(at(100 * step), &said(step, step))));
        for step in 11..200 {
            assert!(!advance.note(at(100 * step - 50), &said(step % 7, step % 5)), "an old word");
            assert!(!advance.note(at(100 * step), &said(10, 10)), "and the true one behind it");
        }
        assert!(advance.note(at(20_000), &said(11, 10)) && advance.note(at(20_100), &said(11, 11)));
        let verifies = Status { state: MemberState::Verifying, ..said(11, 11) };
        assert!(advance.note(at(20_200), &verifies) && !advance.note(at(20_300), &verifies));
    }

    #[test]
    fn one_false_word_covers_no_more_than_a_moment() {
        let mut advance = Advance::new(at(0));
        assert!(advance.note(at(0), &said(1_000_000, 1_000_000)));
        let moves: Vec<u64> = (1..30).filter(|&step| advance.note(at(100 * step), &said(step, step))).collect();
        assert_eq!(moves, (10..30).collect::<Vec<_>>());
    }

    #[test]
    fn after_a_silence_the_last_word_counts() {
        let mut advance = Advance::new(at(0));
        advance.note(at(0), &said(50, 50));
        assert!(!advance.note(at(60_000), &said(50, 50)) && advance.note(at(60_100), &said(51, 50)));
        advance.begin(&said(20, 20));
        assert!(advance.note(at(60_200), &said(21, 20)));
    }
}
