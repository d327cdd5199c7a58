//! Handles, completions and errors of message sends and receives.

use crate::wire::Rank;
use thiserror::Error;

/// Handle of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendId(u64);

/// Handle of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecvId(u64);

impl SendId {
    pub(super) fn new(number: u64) -> SendId {
        SendId(number)
    }
}

impl RecvId {
    pub(super) fn new(number: u64) -> RecvId {
        RecvId(number)
    }
}

/// End of a send or a receive; each has exactly one, unless it was cancelled.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    Send { id: SendId, outcome: SendOutcome },
    Recv { id: RecvId, outcome: RecvOutcome },
}

/// Outcome of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The other host has the whole message: in the receive's destination or, if none was posted
    /// yet, in its pushed buffer.
    Sent,
    /// The other host does not want the rest: the receive's buffer was too short, or its deadline
    /// passed before the message was complete.
    Refused,
    /// The deadline has passed; the message is withdrawn.
    TimedOut,
    /// The other host has left or is silent.
    PeerGone,
}

/// Outcome of a receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecvOutcome {
    /// The message has arrived.
    Received {
        /// Contents of the message.
        bytes: Vec<u8>,
    },
    /// The message is longer than the receive allows; it has been dropped.
    TooShort {
        /// Length of the message.
        message_bytes: u64,
    },
    /// The sender has withdrawn an incomplete message: its deadline passed, or it was cancelled.
    Withdrawn,
    /// The deadline has passed. A message that had begun to arrive is lost, and its sender is
    /// notified.
    TimedOut,
    /// The other host has left or is silent, and no message of this tag has arrived.
    PeerGone,
}

/// Reason why a message is not taken.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    #[error("there is no rank {rank} among {ranks}: send to a rank from 0 to {}", ranks - 1)]
    NoSuchRank { rank: Rank, ranks: usize },
    #[error("rank {rank} has left or is silent: send to those who are left")]
    PeerGone { rank: Rank },
    #[error(
        "the send queue holds {messages} messages of {bytes} bytes: take the outcomes of earlier sends, then send again"
    )]
    QueueFull { messages: usize, bytes: usize },
}

/// Reason why a receive is not posted.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecvError {
    #[error("there is no rank {rank} among {ranks}: receive from a rank from 0 to {}", ranks - 1)]
    NoSuchRank { rank: Rank, ranks: usize },
    #[error("the receive queue holds {receives} receives: take the outcomes of earlier ones, then receive again")]
    QueueFull { receives: usize },
}
