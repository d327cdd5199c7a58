//! How fast a cast may go: as fast as the link takes frames, until a listener loses so much that it must be the slower one.
//!
//! A listener behind a slower cable (or storm control) loses what exceeds its rate. When it lost more than the tolerated part of
//! a round, new frames are paced to what arrived there; the pace then rises by an eighth a round until it no longer binds.

use super::listener::{Listener, Round};
use super::stamp::Stamp;
use crate::time::Instant;
use crate::tuning::Tuning;
use std::time::Duration;

/// Frames that may leave at once after a pause. DESIGN §8.
const BURST_FRAMES: u32 = 32;

#[derive(Debug)]
pub(super) struct Pace {
    round_frames: u64,
    tolerated_one_in: u64,
    repair_percent: u64,
    sent: u64,
    /// Time between two new frames; `None` while nothing binds.
    gap: Option<Duration>,
    /// The gap at which pacing began to bind: far below it pacing is given up.
    slowest: Duration,
    next_at: Instant,
    raised_at: u64,
}

impl Pace {
    pub(super) fn new(tuning: &Tuning) -> Pace {
        Pace {
            round_frames: tuning.cast_round_frames,
            tolerated_one_in: tuning.loss_tolerated_one_in,
            repair_percent: tuning.repair_percent,
            sent: 0,
            gap: None,
            slowest: Duration::ZERO,
            next_at: Instant::START,
            raised_at: 0,
        }
    }

    pub(super) fn repair_percent(&self) -> u64 {
        self.repair_percent
    }

    /// When the next new frame may go, if not now.
    pub(super) fn ready_at(&self, now: Instant) -> Option<Instant> {
        (self.gap.is_some() && self.next_at > now).then_some(self.next_at)
    }

    pub(super) fn on_sent(&mut self, now: Instant) {
        self.sent += 1;
        let Some(gap) = self.gap else { return };
        let earliest = now - gap * BURST_FRAMES;
        self.next_at = self.next_at.max(earliest) + gap;
        if self.sent >= self.raised_at + self.round_frames {
            self.raised_at = self.sent;
            let gap = gap * 8 / 9;
            self.gap = (gap * 8 > self.slowest).then_some(gap);
        }
    }

    /// Counts a listener's losses; judges them when a round of enough frames has passed.
    pub(super) fn on_ack(&mut self, now: Instant, listener: &mut Listener, lost: u64, newest: Stamp) {
        let echo = listener.echo;
        let round = &mut listener.round;
        round.lost += lost;
        let sent = self.sent - round.sent_before;
        if sent < self.round_frames || !(echo.is_after(round.ends) || round.ends == Stamp::NONE) {
            return;
        }
        let took = now.since(round.since);
        if round.lost * self.tolerated_one_in > sent && round.ends != Stamp::NONE {
            let arrived = sent.saturating_sub(round.lost).max(1);
            let gap = (took / u32::try_from(arrived).unwrap_or(u32::MAX)).min(Duration::from_millis(100));
            if self.gap.is_none_or(|present| gap > present) {
                self.gap = Some(gap);
                self.slowest = gap;
                self.raised_at = self.sent;
            }
        }
        *round = Round { since: now, ends: newest, sent_before: self.sent, lost: 0 };
    }
}
