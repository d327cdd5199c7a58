//! Kinds of failures, for whoever turns one into a number: exit codes, the codes of C, exceptions of Python.

use crate::communicator::{CommunicatorError, Error as CallError};
use crate::membership::live::StationError;
use crate::session::{Error as SessionError, Refusal, RootFailure};
use ethbcast_transport::packet::NodeError;

/// What sort of failure an error is, as far as its handling goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not every receiver has the bytes, or the group's work has failed at others.
    SomeFailed = 1,
    /// An argument, a file or an option cannot be, or contradicts what the others were told.
    Usage,
    /// Nobody was there, not everybody came, or the time was up.
    Nobody,
    /// The system: interface, permission, memory, a file.
    System,
    /// The bytes are not the sender's.
    Integrity,
    /// The ranks' calls differ.
    Mismatch,
    /// A rank is silent, cut off or has left.
    Gone,
    /// A message is longer than the buffer for it.
    TooLong,
    /// It was ended before its time.
    Cancelled,
}

impl ErrorKind {
    /// Its number in C and Python; up to 5 it is the exit code of the program ethbcast.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl SessionError {
    /// What sort of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            SessionError::Station(error) => error.kind(),
            SessionError::NotStarted(RootFailure::TooFew { .. } | RootFailure::GroupTaken { .. })
            | SessionError::NobodyThere
            | SessionError::SenderSilent
            | SessionError::TimedOut
            | SessionError::Unconfirmed => ErrorKind::Nobody,
            // A refusal is a matter of time if the session was full or had begun.
            SessionError::Refused { why: Refusal::Late, .. } => ErrorKind::Nobody,
            SessionError::Refused { why: Refusal::NotInTopology | Refusal::NotWanted, .. }
            | SessionError::NotStarted(RootFailure::NoPlan(_))
            | SessionError::NotInTopology { .. }
            | SessionError::Names(_)
            | SessionError::ForWhom
            | SessionError::Tuning(_) => ErrorKind::Usage,
            SessionError::Undelivered(_) | SessionError::Aborted(_) | SessionError::Dropped => ErrorKind::SomeFailed,
            SessionError::Damaged(_) => ErrorKind::Integrity,
            SessionError::Cancelled { .. } => ErrorKind::Cancelled,
            _ => ErrorKind::System,
        }
    }
}

impl CallError {
    /// What sort of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            CallError::Station(error) => error.kind(),
            CallError::Node(NodeError::System { .. } | NodeError::OtherUser { .. } | NodeError::Open(_)) => {
                ErrorKind::System
            }
            CallError::Node(_) => ErrorKind::Usage,
            CallError::OtherGroups { .. } | CallError::TimedOut { .. } => ErrorKind::Nobody,
            CallError::Drive(_) | CallError::Thread(_) | CallError::Random(_) => ErrorKind::System,
            CallError::TooLong { .. } => ErrorKind::TooLong,
            CallError::Interrupted => ErrorKind::Cancelled,
            CallError::Refused { .. } | CallError::Withdrawn { .. } => ErrorKind::SomeFailed,
            CallError::Call(error) => error.kind(),
        }
    }
}

impl CommunicatorError {
    /// What sort of failure it is.
    pub fn kind(&self) -> ErrorKind {
        use CommunicatorError::{
            Busy, Closed, Cut, Deaf, Gone, Left, Length, Mismatch, Missing, Mtu, Name, Namesakes, Network,
            NetworksDiffer, NoSuchRank, NotJoined, OtherBuild, Outlawed, PresetsDiffer, Running, Size, SizesDiffer,
            Tag, TimedOut, TooMany, TwoProcesses, Unconfirmed, Unfit,
        };
        match self {
            Missing { .. } | Unconfirmed { .. } | TimedOut { .. } => ErrorKind::Nobody,
            Name { .. } | Size { .. } | Mtu { .. } | SizesDiffer { .. } | PresetsDiffer { .. } => ErrorKind::Usage,
            Namesakes { .. } | OtherBuild(_) | Network { .. } | NetworksDiffer { .. } | Unfit { .. } => {
                ErrorKind::Usage
            }
            TwoProcesses { .. } | TooMany { .. } | Running { .. } => ErrorKind::Usage,
            NotJoined | Closed | Busy { .. } | NoSuchRank { .. } | Length { .. } | Tag { .. } => ErrorKind::Usage,
            Mismatch { .. } => ErrorKind::Mismatch,
            Gone(_) | Outlawed | Left(_) | Cut(..) | Deaf(_) => ErrorKind::Gone,
            _ => ErrorKind::SomeFailed,
        }
    }
}

impl StationError {
    /// What sort of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            StationError::Interface(_) | StationError::Open(_) => ErrorKind::System,
            _ => ErrorKind::Usage,
        }
    }
}
