//! Schedule of acknowledgements for frames that arrive in order.

use crate::tuning::Tuning;
use crate::wire::Rank;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(super) struct AckSchedule {
    rank: Rank,
    every: u64,
    delay: Duration,
    designated: Option<(u64, Duration)>,
    is_designated: bool,
    /// Turn of this receiver among all, so that not all acknowledge at the same time.
    turn: Option<u64>,
    /// Under strict go-back-n a receiver must acknowledge within the window.
    window: u64,
}

impl AckSchedule {
    pub(super) fn new(rank: Rank, tuning: &Tuning) -> AckSchedule {
        AckSchedule {
            rank,
            every: tuning.ack.every_frames,
            // The last receiver of a round waits up to twice as long.
            delay: tuning.ack.delay + tuning.ack.delay * tuning.ack.turn_permille.unwrap_or(0) as u32 / 1000,
            designated: tuning.designates().then_some((tuning.designated.every_frames, tuning.designated.delay)),
            is_designated: tuning.designated.first,
            turn: tuning.ack.turn_permille.map(|permille| tuning.ack.every_frames * permille / 1000),
            window: tuning.strict_window(),
        }
    }

    pub(super) fn designate(&mut self, rank: Rank) {
        self.is_designated = rank == self.rank;
    }

    fn as_designated(&self) -> Option<(u64, Duration)> {
        self.designated.filter(|_| self.is_designated)
    }

    /// Whether this receiver must answer a frame whose sender is stuck: it is the acker, there is
    /// none, or its credit or window is used up.
    pub(super) fn must_acknowledge(&self, credit_is_used_up: bool, unacknowledged: u64) -> bool {
        self.designated.is_none() || self.is_designated || credit_is_used_up || unacknowledged >= self.window
    }

    /// Whether frame `sequence` is acknowledged, with `unacknowledged` frames before it; `most` is
    /// half of the credit. One receiver answers for all in the push phase (EQA §3.3).
    pub(super) fn is_due(&self, sequence: u64, unacknowledged: u64, pushed: bool, most: u64) -> bool {
        let every = match self.as_designated() {
            Some((every, _)) => every,
            None if self.is_silent(pushed) => return unacknowledged >= self.window,
            None => self.every,
        };
        let in_turn = self.turn.is_some_and(|turn| sequence % self.every == turn && unacknowledged >= self.every / 2);
        in_turn || unacknowledged >= every.min(most)
    }

    pub(super) fn delay(&self, pushed: bool) -> Option<Duration> {
        match self.as_designated() {
            Some((_, delay)) => Some(delay),
            None => (!self.is_silent(pushed)).then_some(self.delay),
        }
    }

    pub(super) fn is_silent(&self, pushed: bool) -> bool {
        pushed && !self.is_designated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_designated_one_speaks_often_and_the_others_in_turn_or_when_their_credit_is_used_up() {
        let tuning = Tuning::default().for_cast(100, 0);
        let mut schedule = AckSchedule::new(Rank(1), &tuning);
        let often = tuning.designated.every_frames;
        assert!(!schedule.is_due(500, often - 1, false, 5000) && schedule.is_due(500, often, false, 5000));
        assert!(schedule.must_acknowledge(false, 1));
        schedule.designate(Rank(7));
        assert!(!schedule.is_due(500, often, false, 5000) && schedule.is_due(500, 16, false, 16));
        assert!(
            !schedule.is_due(2048, 1000, false, 5000) && schedule.is_due(2048, 1024, false, 5000),
            "its turn is the first of 2048"
        );
        assert!(schedule.is_due(2050, 2048, false, 5000), "if that was lost, the next will do");
        assert!(!schedule.must_acknowledge(false, 1) && schedule.must_acknowledge(true, 1));
        schedule.designate(Rank(1));
        assert!(schedule.is_due(500, often, false, 5000));
    }

    #[test]
    fn a_pushed_frame_is_not_acknowledged_by_the_others_until_the_window_is_used_up() {
        let tuning = Tuning::push_pull().for_cast(4, 2);
        let schedule = AckSchedule::new(Rank(3), &tuning);
        assert!(!schedule.is_due(8, 9, true, 8) && schedule.is_due(8, 16, true, 8));
        assert_eq!((schedule.delay(true), schedule.delay(false)), (None, Some(tuning.ack.delay)));
        assert!(schedule.is_due(12, tuning.ack.every_frames, false, 8));
        assert!(!schedule.must_acknowledge(false, 9) && schedule.must_acknowledge(false, 16));
    }
}
