//! Limit on how long a call may make no progress.

use crate::communicator::member::Member;
use ethbcast_transport::Instant;
use std::time::Duration;

/// Checks per allowed time. A stall is noticed at most one sixteenth late.
const CHECKS: u32 = 16;
/// Longest time between two checks.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time that a call may take without progress, here or at another rank as far as known. The
/// caller's driver [checks](Patience::is_over) when it is [due](Patience::due), and abandons the
/// call when it is over.
#[derive(Clone, Debug)]
pub struct Patience {
    within: Duration,
    progress: u64,
    moved_at: Instant,
    due: Instant,
}

impl Patience {
    /// Creates a limit: no progress for longer than `within`, counted from `now`.
    pub fn new(member: &Member, now: Instant, within: Duration) -> Patience {
        let due = now + MAX_CHECK_INTERVAL.min(within / CHECKS);
        Patience { within, progress: member.progress(), moved_at: now, due }
    }

    /// Returns the time of the next check.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Whether the call has made no progress for too long.
    pub fn is_over(&mut self, member: &Member, now: Instant) -> bool {
        if now < self.due {
            return false;
        }
        let progress = member.progress();
        if progress != self.progress {
            (self.progress, self.moved_at) = (progress, now);
        }
        let end = self.moved_at + self.within;
        self.due = end.min(now + MAX_CHECK_INTERVAL.min(self.within / CHECKS));
        end <= now
    }
}
