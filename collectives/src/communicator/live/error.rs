//! Errors of a communicator's blocking calls.

use crate::communicator::{CommunicatorError, Named};
use crate::membership::live::{Forked, StationError, UnusedKey};
use ethbcast_transport::packet::{DriveError, NodeError};
use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// Error of a call of the communicator. Each sentence says what to do.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Station(#[from] StationError),
    #[error(transparent)]
    Unkeyed(#[from] UnusedKey),
    #[error(transparent)]
    Node(NodeError),
    #[error("{missing}; on this host others wait for {}: give all ranks the same group", groups.join(", "))]
    OtherGroups {
        missing: Box<CommunicatorError>,
        groups: Vec<String>,
    },
    #[error(transparent)]
    Forked(#[from] Forked),
    #[error(transparent)]
    Drive(#[from] DriveError),
    #[error("no thread for the communicator's background work: {0}")]
    Thread(#[source] std::io::Error),
    #[error(
        "no random number to join with ({0}): allow getrandom(2), which Linux has from 3.17 on"
    )]
    Random(#[source] std::io::Error),
    #[error(
        "{what} was not done within {within:?}: see whether the other rank makes the matching call, or allow more \
         time"
    )]
    TimedOut { what: String, within: Duration },
    #[error(
        "{to} receives less than the {bytes} bytes sent under tag {tag}, or gave up: let it pass a buffer of that \
         length"
    )]
    Refused { to: Named, bytes: usize, tag: u32 },
    #[error(
        "the message from {from} under tag {tag} has {message_bytes} bytes, the buffer {buffer_bytes}: pass a \
         longer one; the message is lost"
    )]
    TooLong {
        from: Named,
        tag: u32,
        message_bytes: u64,
        buffer_bytes: usize,
    },
    #[error("{from} gave up sending the message under tag {tag}: let it allow more time")]
    Withdrawn { from: Named, tag: u32 },
    /// The caller's [`Meanwhile`](super::Meanwhile) hook has ended the call. A collective has then
    /// failed on all ranks, and so have all later ones.
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Call(#[from] CommunicatorError),
}

/// Prints the sentence, because a program whose `main` returns the error prints its `Debug` form.
impl fmt::Debug for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}
