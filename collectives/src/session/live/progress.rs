//! What a session tells its user while it runs.

use crate::session::{MemberState, ReceiverEvent, RootEvent};

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// To a sender.
    Sender(&'a RootEvent),
    /// To a receiver.
    Receiver(&'a ReceiverEvent),
    /// This host's interface is away (switched off, reset, pulled out), and is waited for; or it is back.
    Interface {
        /// Whether it is away.
        away: bool,
    },
    /// This host's interface has no link (no cable, or its other end is off); or it has one again.
    Link {
        /// Whether there is none.
        lost: bool,
    },
    /// So many bytes are there: to a sender, at the slowest receiver.
    Moved {
        /// Bytes.
        bytes: u64,
        /// To a sender: the slowest receiver, and what it is busy with.
        slowest: Option<(&'a str, MemberState)>,
        /// To a sender: where each receiver is that has not gone, by rank.
        members: &'a [Place<'a>],
        /// Data frames that this host has sent again.
        resent_frames: u64,
    },
}

/// How far a receiver is, as it says itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place<'a> {
    /// Its name.
    pub host: &'a str,
    /// What it is busy with.
    pub state: MemberState,
    /// Bytes that it has taken.
    pub bytes: u64,
}

impl<'a> Place<'a> {
    /// So many bytes at this host.
    pub fn new(host: &'a str, state: MemberState, bytes: u64) -> Place<'a> {
        Place { host, state, bytes }
    }
}
