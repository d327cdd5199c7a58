//! Progress of a running session, for its user.

use crate::session::{MemberState, ReceiverEvent, RootEvent};

/// A progress report.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// An event of a sender.
    Sender(&'a RootEvent),
    /// An event of a receiver.
    Receiver(&'a ReceiverEvent),
    /// This host's interface went away (switched off, reset, pulled out) and is waited for; or it
    /// is back.
    Interface {
        /// Whether the interface is away.
        away: bool,
    },
    /// This host's interface lost its link (no cable, or its other end is off); or it has one
    /// again.
    Link {
        /// Whether the link is lost.
        lost: bool,
    },
    /// Bytes of the content that are there so far: for a sender, at the slowest receiver.
    Moved {
        /// Number of bytes, those that were there before the session included.
        bytes: u64,
        /// Number of bytes that came in this session.
        came: u64,
        /// Slowest receiver and its state, at a sender.
        slowest: Option<(&'a str, MemberState)>,
        /// Progress of each receiver that is not gone, by rank, at a sender.
        members: &'a [ProgressPlace<'a>],
        /// Data frames re-sent by this host.
        resent_frames: u64,
    },
}

/// Progress of a receiver, by its own report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgressPlace<'a> {
    /// Name of the receiver.
    pub host: &'a str,
    /// State of the receiver.
    pub state: MemberState,
    /// Bytes of the content that it has consumed, or had before the session.
    pub bytes: u64,
    /// Bytes that it has consumed of those that came in this session.
    pub came: u64,
}

impl<'a> ProgressPlace<'a> {
    /// Creates the progress of `host`, which had nothing before the session.
    pub fn new(host: &'a str, state: MemberState, bytes: u64) -> ProgressPlace<'a> {
        ProgressPlace { host, state, bytes, came: bytes }
    }
}
