//! Errors of the communicator's blocking calls.

use crate::communicator::{CommunicatorError, Named};
use crate::membership::live::{Forked, StationError};
use ethbcast_transport::packet::{DriveError, NodeError};
use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// Error of a call of the communicator. Each sentence says what to do.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// The interface or the group's name is invalid, or the socket cannot be opened.
    #[error(transparent)]
    Station(#[from] StationError),
    /// The process cannot join the state shared by the ranks of its host.
    #[error(transparent)]
    Node(NodeError),
    /// Some ranks are missing, and other processes of this host wait for other groups.
    #[error("{missing}; on this host others wait for {}: give all ranks the same group", groups.join(", "))]
    OtherGroups {
        /// The missing ranks.
        missing: Box<CommunicatorError>,
        /// The other groups.
        groups: Vec<String>,
    },
    /// The call was made by a forked child of the process that joined.
    #[error(transparent)]
    Forked(#[from] Forked),
    /// The socket failed after it was opened.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The background thread cannot be started.
    #[error("no thread for the communicator's background work: {0}")]
    Thread(#[source] std::io::Error),
    /// The system gives no random number for this run's nonce.
    #[error("no random number to join with ({0}): allow getrandom(2), which Linux has from 3.17 on")]
    Random(#[source] std::io::Error),
    /// A message was not received or sent in time.
    #[error(
        "{what} was not done within {within:?}: see whether the other rank makes the matching call, or allow more \
         time"
    )]
    TimedOut {
        /// Description of the call.
        what: String,
        /// Time allowed.
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
        /// Length of the message, in bytes.
        bytes: usize,
        /// Tag of the message.
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
        /// Tag of the message.
        tag: u32,
        /// Length of the message, in bytes.
        message_bytes: u64,
        /// Length of the buffer, in bytes.
        buffer_bytes: usize,
    },
    /// The sender withdrew the message after part of it had been sent.
    #[error("{from} gave up sending the message under tag {tag}: let it allow more time")]
    Withdrawn {
        /// The sender.
        from: Named,
        tag: u32,
    },
    /// The caller's [`Meanwhile`](super::Meanwhile) hook has ended the call. A collective has then
    /// failed on all ranks, and so have all later ones.
    #[error("interrupted")]
    Interrupted,
    /// Error of the communicator itself: arguments, other ranks, mismatched calls.
    #[error(transparent)]
    Call(#[from] CommunicatorError),
}

/// Prints the sentence, because a program whose `main` returns the error prints its `Debug` form.
impl fmt::Debug for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}
