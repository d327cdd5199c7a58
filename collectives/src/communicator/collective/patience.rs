//! How long a call may go on while nothing moves.

use crate::communicator::member::Member;
use ethbcast_transport::Instant;
use std::time::Duration;

/// So many looks make up the time without progress; it is that much longer at most.
const LOOKS: u32 = 16;
/// The longest time from one look to the next.
const MOST: Duration = Duration::from_secs(1);

/// The time that a call may take without progress, here or at another rank as far as is known. Whoever drives a call
/// [looks](Patience::is_over) when it is [due](Patience::due), and abandons the call when it is over.
#[derive(Clone, Debug)]
pub struct Patience {
    within: Duration,
    progress: u64,
    moved_at: Instant,
    due: Instant,
}

impl Patience {
    /// Nothing may stand still for longer than `within` from `now` on.
    pub fn new(member: &Member, now: Instant, within: Duration) -> Patience {
        let due = now + MOST.min(within / LOOKS);
        Patience { within, progress: member.progress(), moved_at: now, due }
    }

    /// When to look next.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Whether nothing has moved for too long.
    pub fn is_over(&mut self, member: &Member, now: Instant) -> bool {
        if now < self.due {
            return false;
        }
        let progress = member.progress();
        if progress != self.progress {
            (self.progress, self.moved_at) = (progress, now);
        }
        let end = self.moved_at + self.within;
        self.due = end.min(now + MOST.min(self.within / LOOKS));
        end <= now
    }
}
