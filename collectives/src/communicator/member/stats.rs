//! What a member has sent and received, and what memory it takes.

use super::Member;
use ethbcast_transport::messages::{MailboxMemory, MailboxStats};
use ethbcast_transport::stream::{Memory, StreamStats};

/// Counters of a member; all in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberStats {
    /// Calls for the others, and answers to such calls.
    pub calls_sent: u64,
    /// Keepalive of life.
    pub signs_sent: u64,
    /// Frames of another group or session, or from somebody who is no member or gone.
    pub strangers: u64,
    /// Frames that did not parse.
    pub malformed: u64,
    /// All streams together.
    pub streams: StreamStats,
    /// Messages.
    pub mailbox: MailboxStats,
}

/// Memory of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberMemory {
    /// All streams together.
    pub streams: Memory,
    /// Messages.
    pub mailbox: MailboxMemory,
}

impl Member {
    /// What has been sent and received so far.
    pub fn stats(&self) -> MemberStats {
        self.group.as_ref().map_or(self.stats, |group| group.stats(self.stats))
    }

    /// What memory the streams and messages take.
    pub fn memory(&self) -> MemberMemory {
        self.group.as_ref().map(|group| group.memory()).unwrap_or_default()
    }
}
