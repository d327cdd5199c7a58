//! What the application asks a mailbox for, and what it is told.

use crate::wire::Rank;
use thiserror::Error;

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendId(u64);

/// A posted receive.
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

/// The end of a send or of a receive; each has exactly one, unless it was cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// A send has ended.
    Send {
        /// Which.
        id: SendId,
        /// How.
        outcome: SendOutcome,
    },
    /// A receive has ended.
    Recv {
        /// Which.
        id: RecvId,
        /// How.
        outcome: RecvOutcome,
    },
}

/// How a send has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The other host has the whole message: in the receive's destination or, if none was posted yet, in its pushed
    /// buffer.
    Sent,
    /// The other host does not want the rest: the receive's buffer was too short, or its deadline passed in the middle.
    Refused,
    /// The deadline has passed; the message is withdrawn.
    TimedOut,
    /// The other host has left or is silent.
    PeerGone,
}

/// How a receive has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecvOutcome {
    /// Here is the message.
    Received {
        /// All of it.
        bytes: Vec<u8>,
    },
    /// The message is longer than the receive allows; it has been thrown away.
    TooShort {
        /// Its length.
        message_bytes: u64,
    },
    /// The sender has withdrawn the message in the middle: its deadline passed, or it was cancelled.
    Withdrawn,
    /// The deadline has passed. A message that had begun to arrive is lost, and its sender is told.
    TimedOut,
    /// The other host has left or is silent, and no message of this tag is here.
    PeerGone,
}

/// Why a message is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// No such rank.
    #[error("there is no rank {rank} among {ranks}: send to a rank from 0 to {}", ranks - 1)]
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// How many there are.
        ranks: usize,
    },
    /// The peer is given up.
    #[error("rank {rank} has left or is silent: send to those who are left")]
    PeerGone {
        /// The rank asked for.
        rank: Rank,
    },
    /// The send queue is full.
    #[error(
        "the send queue holds {messages} messages of {bytes} bytes: take the outcomes of earlier sends, then send again"
    )]
    QueueFull {
        /// Messages in it.
        messages: usize,
        /// Bytes in it.
        bytes: usize,
    },
}

/// Why a receive is not posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecvError {
    /// No such rank.
    #[error("there is no rank {rank} among {ranks}: receive from a rank from 0 to {}", ranks - 1)]
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// How many there are.
        ranks: usize,
    },
    /// The receive queue is full.
    #[error("the receive queue holds {receives} receives: take the outcomes of earlier ones, then receive again")]
    QueueFull {
        /// Receives in it.
        receives: usize,
    },
}
