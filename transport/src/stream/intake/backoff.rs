//! Reports of a loss: the gap that waits to be reported, and the back-off among many receivers (RFC
//! 5401 §3.2.2).

use crate::feed::Feed;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::Identity;
use std::time::Duration;

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
    pub(super) fn new(identity: Identity, tuning: &Tuning) -> ReportBackoff {
        let Identity { session, stream, rank, .. } = identity;
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
    due: Instant,
}

impl Gap {
    pub(super) fn new(from: u64, to: u64, due: Instant) -> Gap {
        Gap { from, to, due }
    }

    pub(super) fn due(&self) -> Instant {
        self.due
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
    use crate::wire::{EtherType, MacAddr, Rank, StreamId};

    fn backoff_of(rank: u16, tuning: &Tuning) -> ReportBackoff {
        ReportBackoff::new(
            Identity {
                session: 7,
                stream: StreamId(1),
                rank: Rank(rank),
                mac: MacAddr::ZERO,
                ether_type: EtherType::DEFAULT,
            },
            tuning,
        )
    }

    #[test]
    fn of_a_thousand_who_lost_the_same_frame_few_speak_within_a_round_trip_of_the_first() {
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
