//! What a session can fail with.

use super::SendReport;
use crate::membership::live::StationError;
use crate::session::{NamesError, Outcome, Refusal, RootFailure};
use ethbcast_transport::TuningError;
use ethbcast_transport::packet::DriveError;
use std::io;

/// Why a session failed; each sentence says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The group's name or the MTU cannot be, there is no such interface, or no permission.
    #[error(transparent)]
    Station(#[from] StationError),
    /// The engine cannot run on a number in [`Options::tuning`](super::Options::tuning).
    #[error(transparent)]
    Tuning(#[from] TuningError),
    /// The socket failed later.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The system has no thread or no descriptor left.
    #[error("the system has no room for a session's threads ({0}): end other programs, or raise `ulimit -n` and `-u`")]
    Resources(#[source] io::Error),
    /// The system gives no random number, which names a session.
    #[error("no random number to name the session with ({0}): allow getrandom(2), which Linux has from 3.17 on")]
    Random(#[source] io::Error),
    /// A sender was not told for whom to wait.
    #[error("a sender has to know for whom to wait: say how many in `Options::receivers`, or who in `Options::hosts`")]
    ForWhom,
    /// The names do not fit into the frame that invites receivers.
    #[error(transparent)]
    Names(#[from] NamesError),
    /// The topology does not name this host.
    #[error("the topology names no host {host}, only {known}: say which of them this is in `Options::host`")]
    NotInTopology {
        /// This host.
        host: String,
        /// The hosts that it names.
        known: String,
    },
    /// The session did not come about.
    #[error(transparent)]
    NotStarted(#[from] RootFailure),
    /// The reader failed; the receivers have been told.
    #[error("reading {what} failed after {bytes} bytes: {cause}")]
    Read {
        /// What was being read.
        what: String,
        /// Bytes that had been read.
        bytes: u64,
        /// The reader's own error.
        #[source]
        cause: io::Error,
    },
    /// The reader had more or fewer bytes than were announced; the receivers have been told.
    #[error("{what} changed while it was read: {announced} bytes at first, {read} in the end; send it again")]
    SizeChanged {
        /// What was being read.
        what: String,
        /// Bytes that were announced.
        announced: u64,
        /// Bytes that were read.
        read: u64,
    },
    /// A source of one's own has given up, in these words.
    #[error("{0}")]
    GaveUp(String),
    /// Not every receiver has verified the bytes; the report says which.
    #[error("{}", .0.failures())]
    Undelivered(Box<SendReport>),
    /// It was ended before its time, by [`Cancel`](super::Cancel); the others have been told.
    #[error("cancelled{}", if *.delivered { ", but all bytes were already delivered" } else { "" })]
    Cancelled {
        /// Whether all bytes were here and verified by then.
        delivered: bool,
    },
    /// The whole took longer than it may; the others have been told.
    #[error("the session took longer than it may; allow more time, or find out above what it waited for")]
    TimedOut,
    /// The interface has another MTU than when a server's port was opened: it is to be opened anew.
    #[error("interface {interface} has another MTU now: its port is opened anew")]
    OtherMtu {
        /// The interface.
        interface: String,
    },
    /// No sender was heard in time.
    #[error("no sender was heard; start one of the same group, or wait longer")]
    NobodyThere,
    /// The sender turned this host away, and said what to do.
    #[error("{text}")]
    Refused {
        /// Why.
        why: Refusal,
        /// The sender's own words.
        text: String,
    },
    /// The sender gave up, in these words.
    #[error("{0}")]
    Aborted(String),
    /// The sender was not heard any more.
    #[error("the sender fell silent; start it and this receiver again")]
    SenderSilent,
    /// The sender took this host off its list.
    #[error("the sender went on without this host; see its report")]
    Dropped,
    /// All bytes came, and the sender was gone before it said that they are its own: they were not made visible.
    #[error("all bytes came, but the sender ended without confirming them: nothing was put in place; send again")]
    Unconfirmed,
    /// The bytes are not the sender's.
    #[error("{0}")]
    Damaged(String),
    /// The writer failed; the sender has been told.
    #[error("{text}")]
    Write {
        /// What the sender was told.
        outcome: Outcome,
        /// What went wrong, and what to do.
        text: String,
        /// The writer's own error, if it had one.
        #[source]
        cause: Option<io::Error>,
    },
    /// The session is over, and nobody has said what became of the bytes.
    #[error("the session ended without a verdict")]
    NoVerdict,
}
