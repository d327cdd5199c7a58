//! Send rate of a broadcast: as fast as the link, until a receiver's losses show that its cable is
//! slower.
//!
//! A receiver behind a slower cable (or storm control) loses what exceeds its rate. When it loses
//! more than the tolerated share of a round, frames are paced to what arrived there; the pace then
//! rises by an eighth each round until it no longer binds. If a receiver goes on losing as much at
//! the lower pace, its loss has another cause: pacing stops and that loss is tolerated.

use crate::agenda::TokenBucket;
use crate::time::Instant;
use crate::tuning::Tuning;
use std::time::Duration;

const BURST_FRAMES: u32 = 32;

const MAX_PAUSE: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, Default)]
pub(super) struct PacedRound {
    generation: u32,
    known: u64,
    arrived: u64,
    lost: u64,
    span: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LossReport {
    pub known: u64,
    pub arrived: u64,
    pub lost: u64,
    pub since_last: Duration,
}

/// Pace of a cast's new frames. After a pause `BURST_FRAMES` may leave at once: what a switch port
/// takes without loss. A pause above `MAX_PAUSE` between two frames is due to the source, not the
/// network.
///
/// Pacing began at the gap `slowest`; far below it, pacing stops. Losses before frame `from`, the
/// first under the present pace, give no information about it. `allowance` is in hundredths of a
/// repair that may go out before the next new frame.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    round_frames: u64,
    tolerated_permille: u64,
    cause_permille: u64,
    repair_percent: u64,
    allowance: u64,
    sent: u64,
    gap: Option<Duration>,
    slowest: Duration,
    bucket: TokenBucket,
    raised_at: u64,
    from: u64,
    generation: u32,
}

impl Pace {
    pub(super) fn new(tuning: &Tuning) -> Pace {
        Pace {
            round_frames: tuning.cast.round_frames,
            tolerated_permille: tuning.window.loss_tolerated_percent * 10,
            cause_permille: 0,
            repair_percent: tuning.cast.repair_percent,
            allowance: 0,
            sent: 0,
            gap: None,
            slowest: Duration::ZERO,
            bucket: TokenBucket::default(),
            raised_at: 0,
            from: 0,
            generation: 0,
        }
    }

    pub(super) fn from(&self) -> u64 {
        self.from
    }

    pub(super) fn allows_repair(&self) -> bool {
        self.allowance >= 100
    }

    pub(super) fn ready_at(&self, now: Instant) -> Option<Instant> {
        self.gap.and(self.bucket.ready_at(now))
    }

    pub(super) fn on_sent(&mut self, now: Instant, new: bool) {
        self.sent += u64::from(new);
        self.allowance = if new {
            (self.allowance + self.repair_percent).min(3200)
        } else {
            self.allowance.saturating_sub(100)
        };
        let Some(gap) = self.gap else { return };
        self.bucket.spend(now, gap, gap * BURST_FRAMES);
        if self.sent >= self.raised_at + self.round_frames {
            self.raised_at = self.sent;
            let gap = gap * 8 / 9;
            self.gap = (gap * 8 > self.slowest).then_some(gap);
        }
    }

    pub(super) fn on_ack(&mut self, round: &mut PacedRound, report: LossReport, next: u64) {
        let LossReport {
            known,
            arrived,
            lost,
            since_last,
        } = report;
        let fresh = PacedRound {
            generation: self.generation,
            known,
            arrived,
            lost: 0,
            span: Duration::ZERO,
        };
        if round.generation != self.generation {
            *round = fresh;
            return;
        }
        round.lost += lost;
        round.span += since_last.min(MAX_PAUSE);
        let frames = known.saturating_sub(round.known);
        if frames >= self.round_frames {
            let permille = round.lost.min(frames) * 1000 / frames;
            // A listener with this much loss receives exactly what its cable carries.
            let gap = round.span
                / u32::try_from(arrived.saturating_sub(round.arrived).max(1)).unwrap_or(u32::MAX);
            *round = fresh;
            self.judge(permille, gap, next);
        }
    }

    pub(super) fn release(&mut self, next: u64) {
        self.gap = None;
        self.from = next;
        self.generation += 1;
    }

    fn judge(&mut self, permille: u64, gap: Duration, next: u64) {
        if permille <= self.tolerated_permille {
            return;
        }
        if self.gap.is_some() && permille * 4 >= self.cause_permille * 3 {
            log::debug!("pacing does not help against {permille} ‰ of loss: given up");
            self.tolerated_permille = (permille * 3 / 2).min(1000);
            self.gap = None;
        } else if self.gap.is_none_or(|present| gap > present) {
            log::debug!("a listener lost {permille} ‰: paced to a frame every {gap:?}");
            self.gap = Some(gap);
            self.cause_permille = permille;
            self.slowest = gap;
            self.raised_at = self.sent;
            self.from = next;
            self.generation += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: u64 = 100;

    struct Listening {
        pace: Pace,
        round: PacedRound,
        known: u64,
        arrived: u64,
    }

    impl Listening {
        fn begin() -> Listening {
            let mut tuning = Tuning::default();
            (
                tuning.cast.round_frames,
                tuning.window.loss_tolerated_percent,
            ) = (ROUND, 5);
            Listening {
                pace: Pace::new(&tuning),
                round: PacedRound::default(),
                known: 0,
                arrived: 0,
            }
        }

        fn ten(&mut self, lost: u64) {
            (self.known, self.arrived) = (self.known + 10, self.arrived + 10 - lost);
            let since_last = Duration::from_millis(1);
            let report = LossReport {
                known: self.known,
                arrived: self.arrived,
                lost,
                since_last,
            };
            self.pace.on_ack(&mut self.round, report, self.known);
        }

        fn round(&mut self, lost: u64) {
            (0..10).for_each(|_| self.ten(lost));
        }

        fn send(&mut self, frames: u64) -> Option<Duration> {
            (0..frames).for_each(|_| self.pace.on_sent(LATER, true));
            self.pace.ready_at(LATER).map(|at| at.since(LATER))
        }
    }

    const LATER: Instant = Instant::from_nanos(1_000_000_000);

    #[test]
    fn after_heavy_loss_the_pace_is_what_arrived_and_then_rises() {
        let mut listening = Listening::begin();
        assert_eq!(listening.send(1000), None, "nothing binds");
        listening.round(2);
        // 80 frames arrived in ten milliseconds.
        let gap = Duration::from_micros(125);
        assert_eq!(listening.pace.from(), ROUND);
        assert_eq!(listening.send(u64::from(BURST_FRAMES)), None);
        assert_eq!(listening.send(1), Some(gap));
        assert_eq!(
            listening.send(ROUND - u64::from(BURST_FRAMES) - 1),
            Some(gap * (ROUND as u32 - BURST_FRAMES))
        );
        let (all, faster) = (listening.send(0).unwrap_or_default(), gap * 8 / 9);
        assert_eq!(listening.send(1), Some(all + faster));
        listening.pace.on_sent(LATER, false);
        assert_eq!(
            listening.send(0),
            Some(all + faster * 2),
            "a repair takes its time, too"
        );
        // An eighth faster each round, until it is eight times as fast; it then no longer limits.
        assert!(listening.send(16 * ROUND).is_some());
        assert_eq!(listening.send(ROUND), None);
    }

    #[test]
    fn tolerated_losses_slow_nobody_and_losses_that_pacing_does_not_cure_are_tolerated() {
        let mut listening = Listening::begin();
        (0..10).for_each(|part| listening.ten(u64::from(part % 2 == 0)));
        assert_eq!(
            (listening.send(1000), listening.pace.from()),
            (None, 0),
            "5 % of a round"
        );
        listening.round(2);
        assert!(listening.send(1000).is_some());
        // Frames already in flight do not count: the round begins anew.
        listening.ten(9);
        listening.round(2);
        assert_eq!(listening.send(1000), None, "given up");
        listening.round(3);
        assert_eq!(
            listening.send(1000),
            None,
            "half as much again is tolerated"
        );
        listening.round(4);
        assert!(listening.send(1000).is_some());
    }

    #[test]
    fn pacing_that_helps_stays_and_when_a_listener_goes_it_ends() {
        let mut listening = Listening::begin();
        listening.round(4);
        let paced = listening.send(100).expect("it binds");
        listening.ten(0);
        listening.round(2);
        assert!(
            listening.send(0).is_some_and(|after| after == paced),
            "half the loss: it goes on at this pace"
        );
        listening.pace.release(777);
        assert_eq!((listening.send(1000), listening.pace.from()), (None, 777));
    }
}
