//! What a call of the communicator can fail with.

use crate::communicator::{CommunicatorError, Named};
use crate::membership::live::StationError;
use ethbcast_transport::packet::{DriveError, NodeError};
use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// Why a call of the communicator failed; each sentence says what to do.
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no interface that will do, the group cannot be called so, or the socket cannot be opened.
    #[error(transparent)]
    Station(#[from] StationError),
    /// This process cannot take part in what the ranks of its host share.
    #[error(transparent)]
    Node(NodeError),
    /// Not everybody came, and other processes of this host wait for other groups.
    #[error("{missing}; on this host others wait for {}: give all ranks the same group", groups.join(", "))]
    OtherGroups {
        /// Who was missing.
        missing: Box<CommunicatorError>,
        /// The groups.
        groups: Vec<String>,
    },
    /// The socket failed later.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The background thread cannot be started.
    #[error("no thread for the communicator's background work: {0}")]
    Thread(#[source] std::io::Error),
    /// The system gives no random number, which names this run of the process.
    #[error("no random number to join with ({0}): allow getrandom(2), which Linux has from 3.17 on")]
    Random(#[source] std::io::Error),
    /// A message did not come, or did not go, in time.
    #[error(
        "{what} was not done within {within:?}: see whether the other rank makes the matching call, or allow more \
         time"
    )]
    TimedOut {
        /// The call.
        what: String,
        /// The time it had.
        within: Duration,
    },
    /// The receiver of a message has no room for it.
    #[error(
        "{to} receives less than the {bytes} bytes sent under tag {tag}, or gave up: let it pass a buffer of that \
         length"
    )]
    Refused {
        /// The receiver.
        to: Named,
        /// The message's length.
        bytes: usize,
        /// Its tag.
        tag: u32,
    },
    /// A message is longer than the buffer.
    #[error(
        "the message from {from} under tag {tag} has {message_bytes} bytes, the buffer {buffer_bytes}: pass a \
         longer one; the message is lost"
    )]
    TooLong {
        /// The sender.
        from: Named,
        /// The tag.
        tag: u32,
        /// The message's length.
        message_bytes: u64,
        /// The buffer's.
        buffer_bytes: usize,
    },
    /// The sender gave up in the middle of a message.
    #[error("{from} gave up sending the message under tag {tag}: let it allow more time")]
    Withdrawn {
        /// The sender.
        from: Named,
        /// The tag.
        tag: u32,
    },
    /// What the caller does [meanwhile](super::Meanwhile) has ended the call. If that is a collective, it has failed on
    /// all ranks, and so have all later ones.
    #[error("interrupted")]
    Interrupted,
    /// The communicator's own: arguments, other ranks, mismatched calls.
    #[error(transparent)]
    Call(#[from] CommunicatorError),
}

/// The sentence: what a program prints whose `main` returns the error.
impl fmt::Debug for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}
