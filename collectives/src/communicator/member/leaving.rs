//! How a member leaves: not before the others have what it sent them, and not without a word.

use crate::membership::timing::HURRY;
use ethbcast_transport::Instant;

/// How often a good-bye is repeated: for 75 ms, in which a sender whose acknowledgement was lost asks for it three
/// times.
pub(super) const FAREWELLS: u8 = 5;

/// How far a member is with leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeavingStage {
    Staying,
    /// It waits until the others have what it has sent, until this moment at most.
    Settling {
        by: Instant,
    },
    /// It says good-bye: so many times more, next at `due`, and begins anew if somebody needs something, until `by`.
    Parting {
        repeats: u8,
        due: Instant,
        by: Instant,
    },
    Over,
}

/// The way out of one member.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    stage: LeavingStage,
    /// The good-bye that waits to be sent: how many follow it.
    bye: Option<u8>,
}

impl Leaving {
    /// A member that stays for now.
    pub(super) fn new() -> Leaving {
        Leaving { stage: LeavingStage::Staying, bye: None }
    }

    /// Leaves at `by` at the latest.
    pub(super) fn begin(&mut self, by: Instant) {
        self.stage = LeavingStage::Settling { by };
    }

    /// Somebody needs something of a member that says good-bye: it stays a little longer.
    pub(super) fn linger(&mut self, now: Instant) {
        if let LeavingStage::Parting { repeats, by, .. } = &mut self.stage
            && now < *by
        {
            *repeats = FAREWELLS;
        }
    }

    /// When the next step is due.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.stage {
            LeavingStage::Settling { by: at } | LeavingStage::Parting { due: at, .. } => Some(at),
            LeavingStage::Staying | LeavingStage::Over => None,
        }
    }

    /// Whether it waits for the others to have what it has sent.
    pub(super) fn is_settling(&self) -> bool {
        matches!(self.stage, LeavingStage::Settling { .. })
    }

    /// Whether it says good-bye.
    pub(super) fn is_parting(&self) -> bool {
        matches!(self.stage, LeavingStage::Parting { .. })
    }

    /// Whether it has said good-bye: a sign of life would be taken for staying.
    pub(super) fn has_parted(&self) -> bool {
        self.is_parting() || self.is_over()
    }

    /// The others have what they were sent, or it is `alone`; or it is time for the next good-bye.
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
        self.stage = LeavingStage::Parting { repeats, due: now + HURRY, by };
        self.bye = Some(repeats);
    }

    /// The good-bye that is to be sent: how often it will be repeated.
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
