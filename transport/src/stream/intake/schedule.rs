//! Timing of acknowledgements: after frames in order, after losses, and with back-off among many
//! receivers (RFC 5401 §3.2.2).

use crate::feed::Feed;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Identity, Rank};
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

    /// Whether this receiver must reply to a frame whose sender is stuck: it is the acker, there is
    /// none, or its credit or window is used up.
    pub(super) fn must_acknowledge(&self, credit_is_used_up: bool, unacknowledged: u64) -> bool {
        self.designated.is_none() || self.is_designated || credit_is_used_up || unacknowledged >= self.window
    }

    /// Whether frame `sequence` is acknowledged, with `unacknowledged` frames before it; `most` is
    /// half of the credit. In the push phase one receiver acknowledges for all (EQA §3.3).
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

#[derive(Clone, Debug)]
pub(super) struct ReportBackoff {
    stagger: Duration,
    random: Option<RandomBackoff>,
}

/// RFC 5401's truncated exponential distribution: most wait long, so that the first report serves
/// the others.
#[derive(Clone, Debug)]
struct RandomBackoff {
    longest: Duration,
    /// ln(group size) + 1: the larger the group, the fewer report early.
    lambda: f64,
    /// Hash of the receiver. There is no random source here; a number that differs between
    /// receivers and losses will do.
    seed: u64,
}

impl ReportBackoff {
    pub(super) fn new(identity: &Identity, tuning: &Tuning) -> ReportBackoff {
        let Identity { session, stream, rank, .. } = *identity;
        let random = |group: u32| RandomBackoff {
            longest: tuning.ack.group_round_trip * tuning.ack.backoff_round_trips,
            lambda: f64::from(group.max(1)).ln() + 1.0,
            seed: u64::from(session) << 32 | u64::from(stream.0) << 16 | u64::from(rank.0),
        };
        ReportBackoff { stagger: tuning.ack.gap_delay, random: tuning.ack.backoff_group.map(random) }
    }

    pub(super) fn wait(&self, sequence: u64) -> Duration {
        self.random.as_ref().map_or(self.stagger, |random| random.wait(sequence))
    }
}

impl RandomBackoff {
    fn wait(&self, sequence: u64) -> Duration {
        let uniform = (mix(self.seed ^ mix(sequence)) >> 11) as f64 / (1_u64 << 53) as f64;
        // Inverse of the distribution function: 0 maps to 0, 1 to the longest delay.
        let share = (uniform * self.lambda.exp_m1()).ln_1p() / self.lambda;
        self.longest.mul_f64(share.clamp(0.0, 1.0))
    }
}

/// Steele, Lea and Flood's finaliser (SplitMix64): neighbours come out unrelated.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    from: u64,
    to: u64,
    pub(super) due: Instant,
}

impl Gap {
    pub(super) fn new(from: u64, to: u64, due: Instant) -> Gap {
        Gap { from, to, due }
    }

    pub(super) fn and(self, earlier: Option<Gap>) -> Gap {
        earlier.map_or(self, |gap| Gap {
            from: gap.from.min(self.from),
            to: gap.to.max(self.to),
            due: gap.due.min(self.due),
        })
    }

    pub(super) fn is_open(&self, feed: &Feed) -> bool {
        (self.from.max(feed.head())..self.to).any(|sequence| !feed.has(sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{EtherType, Guard, MacAddr, StreamId};

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

    fn backoff_of(rank: u16, tuning: &Tuning) -> ReportBackoff {
        ReportBackoff::new(
            &Identity {
                session: 7,
                stream: StreamId(1),
                rank: Rank(rank),
                mac: MacAddr::ZERO,
                ether_type: EtherType::DEFAULT,
                guard: Guard::Plain,
            },
            tuning,
        )
    }

    #[test]
    fn few_of_a_thousand_that_lost_the_same_frame_report_it_within_a_round_trip() {
        let tuning = Tuning::default();
        let mut group = tuning.clone();
        group.ack.backoff_group = Some(1000);
        let spoken = |sequence: u64| {
            let mut waits: Vec<Duration> = (1..=1000).map(|rank| backoff_of(rank, &group).wait(sequence)).collect();
            waits.sort_unstable();
            assert!(waits[999] <= tuning.ack.group_round_trip * tuning.ack.backoff_round_trips);
            waits.iter().filter(|&&wait| wait < waits[0] + tuning.ack.group_round_trip).count()
        };
        let counts: Vec<usize> = (0..200).map(spoken).collect();
        assert!(counts.iter().sum::<usize>() < 200 * 12, "{counts:?}");
        let evenly = counts.iter().filter(|&&count| count > 100).count();
        assert_eq!(evenly, 0, "evenly spread, 167 of 1000 would speak");
    }

    #[test]
    fn among_few_each_has_its_own_short_time() {
        let tuning = Tuning::default().for_cast(16, 3);
        assert_eq!(backoff_of(4, &tuning).wait(9), tuning.ack.gap_delay);
    }

    #[test]
    fn a_gap_that_was_filled_needs_no_report() {
        let mut feed = Feed::new(16, 1);
        feed.add_reader(0);
        [0, 3, 5]
            .into_iter()
            .for_each(|sequence| assert_ne!(feed.insert(sequence, &[], false), crate::feed::Inserted::Beyond));
        let gap = Gap::new(1, 3, Instant::START);
        assert!(gap.is_open(&feed));
        feed.insert(1, &[], false);
        assert!(gap.is_open(&feed));
        feed.insert(2, &[], false);
        assert!(!gap.is_open(&feed));
        assert!(Gap::new(4, 5, Instant::START).and(Some(gap)).is_open(&feed));
    }
}
