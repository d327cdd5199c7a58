//! Counters and memory of a member.

use super::Member;
use ethbcast_transport::messages::{MailboxMemory, MailboxStats};
use ethbcast_transport::stream::{Memory, StreamStats};

/// Counters of a member; all in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberStats {
    /// Calls for the others, and replies to such calls.
    pub calls_sent: u64,
    /// Keepalives.
    pub signs_sent: u64,
    /// Frames of another group or session, or from a non-member or a member that is gone.
    pub strangers: u64,
    /// Frames that did not parse.
    pub malformed: u64,
    /// Streams together.
    pub streams: StreamStats,
    /// Messages.
    pub mailbox: MailboxStats,
}

/// Memory of a member, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberMemory {
    /// Streams together.
    pub streams: Memory,
    /// Messages.
    pub mailbox: MailboxMemory,
}

impl Member {
    /// Returns the counters so far.
    pub fn stats(&self) -> MemberStats {
        self.group.as_ref().map_or(self.stats, |group| group.stats(self.stats))
    }

    /// Returns the memory of streams and messages.
    pub fn memory(&self) -> MemberMemory {
        self.group.as_ref().map(|group| group.memory()).unwrap_or_default()
    }
}
