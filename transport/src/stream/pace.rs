//! How fast a cast may go: as fast as the link takes frames, until a listener loses so much that it must be the slower one.
//!
//! A listener behind a slower cable (or storm control) loses what exceeds its rate. When it lost more than the tolerated part of
//! a round, frames are paced to what arrived there; the pace then rises by an eighth a round until it no longer binds. If a
//! listener goes on losing as much at the lower pace, its loss has another cause: pacing is given up and that much tolerated.

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
    tolerated_permille: u64,
    /// The loss that made pacing begin.
    cause_permille: u64,
    repair_percent: u64,
    sent: u64,
    /// Time between two frames; `None` while nothing binds.
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
            tolerated_permille: 1000 / tuning.loss_tolerated_one_in,
            cause_permille: 0,
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

    /// When the next frame may go, if not now.
    pub(super) fn ready_at(&self, now: Instant) -> Option<Instant> {
        (self.gap.is_some() && self.next_at > now).then_some(self.next_at)
    }

    /// A frame goes out, new or as a repair.
    pub(super) fn on_sent(&mut self, now: Instant, new: bool) {
        self.sent += u64::from(new);
        let Some(gap) = self.gap else { return };
        let earliest = now - gap * BURST_FRAMES;
        self.next_at = self.next_at.max(earliest) + gap;
        if self.sent >= self.raised_at + self.round_frames {
            self.raised_at = self.sent;
            let gap = gap * 8 / 9;
            self.gap = (gap * 8 > self.slowest).then_some(gap);
        }
    }

    /// Counts a listener's new losses; judges them when a round of enough frames has passed.
    pub(super) fn on_ack(&mut self, now: Instant, listener: &mut Listener, lost: u64, newest: Stamp) {
        let echo = listener.echo;
        let round = &mut listener.round;
        round.lost += lost;
        let sent = self.sent - round.sent_before;
        if sent < self.round_frames || !(echo.is_after(round.ends) || round.ends == Stamp::NONE) {
            return;
        }
        if round.ends != Stamp::NONE {
            self.judge(round.lost.min(sent), sent, now.since(round.since));
        }
        *round = Round { since: now, ends: newest, sent_before: self.sent, lost: 0 };
    }

    fn judge(&mut self, lost: u64, sent: u64, took: Duration) {
        let permille = lost * 1000 / sent;
        if permille <= self.tolerated_permille {
            return;
        }
        if self.gap.is_some() && permille * 4 >= self.cause_permille * 3 {
            log::debug!("pacing does not help against {permille} ‰ of loss: given up");
            self.tolerated_permille = (permille * 3 / 2).min(1000);
            self.gap = None;
            return;
        }
        let arrived = u32::try_from((sent - lost).max(1)).unwrap_or(u32::MAX);
        let gap = took / arrived;
        if self.gap.is_none_or(|present| gap > present) {
            log::debug!("a listener lost {permille} ‰ of {sent} frames: paced to one in {gap:?}");
            self.gap = Some(gap);
            self.cause_permille = permille;
            self.slowest = gap;
            self.raised_at = self.sent;
        }
    }
}
