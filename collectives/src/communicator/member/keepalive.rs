//! When a member tells the others that it is there.

use crate::communicator::config::period;
use crate::membership::timing::HURRY;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;

/// How often a reason to stop is repeated at once.
const REPEATS: u8 = 2;

/// The signs of life of one member.
#[derive(Clone, Debug)]
pub(super) struct Keepalive {
    rank: Rank,
    size: u16,
    due: Instant,
    /// How many more are to follow soon, because there is something that all should know.
    hurried: u8,
    /// Whether one waits to be sent.
    is_pending: bool,
    is_first: bool,
}

impl Keepalive {
    /// The first is due at `now`.
    pub(super) fn new(now: Instant, rank: Rank, size: u16) -> Keepalive {
        Keepalive { rank, size, due: now, hurried: 0, is_pending: false, is_first: true }
    }

    /// There is something that all should know at once.
    pub(super) fn hurry(&mut self, now: Instant) {
        (self.due, self.hurried) = (now, REPEATS);
    }

    /// When the next is due; one that is alone need not say that it is there.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.size > 1).then_some(self.due)
    }

    /// A sign is to be sent now; the next soon if there is something that all should know.
    pub(super) fn give(&mut self, now: Instant) {
        let mut pause = period(self.size);
        if std::mem::take(&mut self.is_first) {
            // Not all in the same moment.
            pause += pause * u32::from(self.rank.0) / u32::from(self.size);
        }
        if let Some(hurried) = self.hurried.checked_sub(1) {
            (self.hurried, pause) = (hurried, HURRY);
        }
        (self.is_pending, self.due) = (true, now + pause);
    }

    /// Whether a sign is to be sent; it is taken as sent.
    pub(super) fn take(&mut self) -> bool {
        std::mem::take(&mut self.is_pending)
    }
}
