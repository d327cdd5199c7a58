//! How fast a cast may go: as fast as the link takes frames, until a listener loses so much that it must be the slower
//! one.
//!
//! A listener behind a slower cable (or storm control) loses what exceeds its rate. When it lost more than the
//! tolerated part of a round, frames are paced to what arrived there; the pace then rises by an eighth a round until it
//! no longer binds. If a listener goes on losing as much at the lower pace, its loss has another cause: pacing is given
//! up and that much tolerated.

use crate::time::Instant;
use crate::tuning::Tuning;
use std::time::Duration;

/// Frames that may leave at once after a pause: what a switch's port takes without loss.
const BURST_FRAMES: u32 = 32;

/// A longer pause between two frames is the source's, not the network's.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// The losses of one listener since a frame, under one pace.
#[derive(Clone, Debug, Default)]
pub(super) struct PacedRound {
    /// The pace it runs under.
    generation: u32,
    /// What was known, and what had arrived, when it began.
    known: u64,
    arrived: u64,
    lost: u64,
    /// How long it has taken, long pauses left out.
    span: Duration,
}

/// What one acknowledgement says of a listener.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossReport {
    /// One past the newest frame known to have arrived or been lost.
    pub known: u64,
    /// Frames that have arrived, all in all.
    pub arrived: u64,
    /// Frames newly known to be lost.
    pub lost: u64,
    /// The time since the acknowledgement before.
    pub since_last: Duration,
}

/// The pace of a cast.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    round_frames: u64,
    tolerated_permille: u64,
    /// The loss that made pacing begin.
    cause_permille: u64,
    repair_percent: u64,
    /// New frames.
    sent: u64,
    /// Time between two frames; `None` while nothing binds.
    gap: Option<Duration>,
    /// The gap at which pacing began to bind: far below it pacing is given up.
    slowest: Duration,
    next_at: Instant,
    raised_at: u64,
    /// The first new frame under the present pace: what was lost before says nothing about it.
    from: u64,
    /// Counts the paces; a listener's round under an older one is not judged.
    generation: u32,
}

impl Pace {
    pub(super) fn new(tuning: &Tuning) -> Pace {
        Pace {
            round_frames: tuning.cast.round_frames,
            tolerated_permille: tuning.window.loss_tolerated_percent * 10,
            cause_permille: 0,
            repair_percent: tuning.cast.repair_percent,
            sent: 0,
            gap: None,
            slowest: Duration::ZERO,
            next_at: Instant::START,
            raised_at: 0,
            from: 0,
            generation: 0,
        }
    }

    /// The first frame whose loss tells something about the present pace.
    pub(super) fn from(&self) -> u64 {
        self.from
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

    /// Counts a listener's new losses in its `round`, and judges them when a round of enough frames has passed; `next`
    /// is the next new frame.
    pub(super) fn on_ack(&mut self, round: &mut PacedRound, report: LossReport, next: u64) {
        let LossReport { known, arrived, lost, since_last } = report;
        let fresh = PacedRound { generation: self.generation, known, arrived, lost: 0, span: Duration::ZERO };
        if round.generation != self.generation {
            *round = fresh;
            return;
        }
        round.lost += lost;
        round.span += since_last.min(LONGEST_PAUSE);
        let frames = known.saturating_sub(round.known);
        if frames >= self.round_frames {
            let permille = round.lost.min(frames) * 1000 / frames;
            // What a listener gets that loses so much is what its cable carries.
            let gap = round.span / u32::try_from(arrived.saturating_sub(round.arrived).max(1)).unwrap_or(u32::MAX);
            *round = fresh;
            self.judge(permille, gap, next);
        }
    }

    /// A listener has gone: whether the others, too, lose frames is to be seen from frame `next` on.
    pub(super) fn release(&mut self, next: u64) {
        self.gap = None;
        self.from = next;
        self.generation += 1;
    }

    /// A listener has lost `permille` of a round, during which a frame arrived every `gap`.
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
