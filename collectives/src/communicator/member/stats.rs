//! What a member has sent and received, and what memory it takes.

use super::Member;
use ethbcast_transport::messages::{MailboxMemory, MailboxStats};
use ethbcast_transport::stream::{Memory, StreamStats};

/// Counters of a member; all in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberStats {
    /// Calls for the others, and answers to such calls.
    pub calls_sent: u64,
    /// Signs of life.
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
pub struct MemberMemory {
    /// All streams together.
    pub streams: Memory,
    /// Messages.
    pub mailbox: MailboxMemory,
}

impl Member {
    /// What has been sent and received so far.
    pub fn stats(&self) -> MemberStats {
        let Some(membership) = &self.membership else { return self.stats };
        MemberStats {
            signs_sent: membership.signs_sent,
            strangers: self.stats.strangers + membership.strangers,
            malformed: self.stats.malformed + membership.malformed,
            streams: membership.streams.stats(),
            mailbox: membership.mailbox.stats(),
            ..self.stats
        }
    }

    /// What memory the streams and messages take.
    pub fn memory(&self) -> MemberMemory {
        let Some(membership) = &self.membership else { return MemberMemory::default() };
        MemberMemory { streams: membership.streams.memory(), mailbox: membership.mailbox.memory() }
    }

    /// Recomputes every count; a sentence that names the first disagreement.
    ///
    /// # Errors
    /// That sentence.
    pub fn audit(&self) -> Result<(), ethbcast_transport::AuditError> {
        let Some(membership) = &self.membership else { return Ok(()) };
        membership.streams.audit()?;
        membership.mailbox.audit()
    }
}
