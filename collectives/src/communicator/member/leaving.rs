//! Leaving a group: a member waits until the others have what it sent them, then sends BYE.

use crate::membership::timing::URGENT_INTERVAL;
use ethbcast_transport::Instant;

/// Repetitions of BYE. They last 75 ms, in which a sender whose acknowledgement was lost asks for
/// it three times.
pub(super) const FAREWELLS: u8 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeavingStage {
    Staying,
    /// Waits until the others have what this member has sent, until `by` at most.
    Settling {
        by: Instant,
    },
    /// Sends BYE `repeats` more times, next at `due`. Starts again if another rank needs something,
    /// until `by`.
    Parting {
        repeats: u8,
        due: Instant,
        by: Instant,
    },
    Over,
}

#[derive(Clone, Debug)]
pub(super) struct Leaving {
    stage: LeavingStage,
    bye: Option<u8>,
}

impl Leaving {
    pub(super) fn new() -> Leaving {
        Leaving { stage: LeavingStage::Staying, bye: None }
    }

    pub(super) fn begin(&mut self, by: Instant) {
        self.stage = LeavingStage::Settling { by };
    }

    /// Extends the BYEs because another rank still needs something.
    pub(super) fn linger(&mut self, now: Instant) {
        if let LeavingStage::Parting { repeats, by, .. } = &mut self.stage
            && now < *by
        {
            *repeats = FAREWELLS;
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        match self.stage {
            LeavingStage::Settling { by: at } | LeavingStage::Parting { due: at, .. } => Some(at),
            LeavingStage::Staying | LeavingStage::Over => None,
        }
    }

    pub(super) fn is_settling(&self) -> bool {
        matches!(self.stage, LeavingStage::Settling { .. })
    }

    pub(super) fn is_parting(&self) -> bool {
        matches!(self.stage, LeavingStage::Parting { .. })
    }

    pub(super) fn has_parted(&self) -> bool {
        self.is_parting() || self.is_over()
    }

    /// Takes the next step: the others have everything (`settled`), there are no others (`alone`),
    /// or the next BYE is due.
    pub(super) fn advance(&mut self, now: Instant, alone: bool, settled: bool) {
        match self.stage {
            LeavingStage::Settling { .. } if alone => self.stage = LeavingStage::Over,
            LeavingStage::Settling { by } if by <= now || settled => self.part(now, FAREWELLS, by),
            LeavingStage::Parting { repeats, due, by } if due <= now => match repeats.checked_sub(1) {
                Some(repeats) => self.part(now, repeats, by),
                None => self.stage = LeavingStage::Over,
            },
            _ => {}
        }
    }

    fn part(&mut self, now: Instant, repeats: u8, by: Instant) {
        self.stage = LeavingStage::Parting { repeats, due: now + URGENT_INTERVAL, by };
        self.bye = Some(repeats);
    }

    pub(super) fn take_bye(&mut self) -> Option<u8> {
        self.bye.take()
    }

    pub(super) fn has_begun(&self) -> bool {
        self.stage != LeavingStage::Staying
    }

    pub(super) fn is_over(&self) -> bool {
        self.stage == LeavingStage::Over
    }
}
