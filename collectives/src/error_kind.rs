//! Kinds of errors, from which exit codes, C status codes and Python exceptions are derived.

use crate::communicator::{CommunicatorError, Error as CallError};
use crate::membership::live::StationError;
use crate::session::{Error as SessionError, Refusal, RootFailure};
use ethbcast_transport::packet::NodeError;

/// Kind of failure, as far as its handling is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Some receivers lack the bytes, or the group's work has failed at others.
    SomeFailed = 1,
    /// An argument, a file or an option is invalid, or contradicts that of other hosts.
    Usage,
    /// Hosts were missing, all or some, or the time was up.
    Nobody,
    /// The system failed: interface, permission, memory, a file.
    System,
    /// The received bytes differ from the sender's.
    Integrity,
    /// The ranks' calls differ.
    Mismatch,
    /// A rank is silent, cut off or has left.
    Gone,
    /// A message is longer than the buffer for it.
    TooLong,
    /// The operation was cancelled.
    Cancelled,
}

impl ErrorKind {
    /// Returns its number in C and Python; up to 5 it is the exit code of the program ethbcast.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl SessionError {
    /// Returns the kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            SessionError::Station(error) => error.kind(),
            SessionError::NotStarted(
                RootFailure::TooFew { .. } | RootFailure::GroupTaken { .. },
            )
            | SessionError::NobodyThere
            | SessionError::NobodyElse(_)
            | SessionError::SenderSilent
            | SessionError::TimedOut
            | SessionError::Unconfirmed => ErrorKind::Nobody,
            // A refusal counts as a timeout if the session was full or had begun.
            SessionError::Refused {
                why: Refusal::Late, ..
            } => ErrorKind::Nobody,
            SessionError::Refused {
                why: Refusal::NotInTopology | Refusal::NotWanted,
                ..
            }
            | SessionError::NotStarted(RootFailure::NoPlan(_))
            | SessionError::NotInTopology { .. }
            | SessionError::Names(_)
            | SessionError::ForWhom
            | SessionError::MayNotSend
            | SessionError::OwnHook
            | SessionError::OnlyOnce { .. }
            | SessionError::Forked(_)
            | SessionError::OwnHost { .. }
            | SessionError::Loop { .. }
            | SessionError::OwnReceivers { .. }
            | SessionError::Tuning(_) => ErrorKind::Usage,
            SessionError::Undelivered(_) | SessionError::Aborted(_) | SessionError::Dropped => {
                ErrorKind::SomeFailed
            }
            SessionError::Damaged(_) => ErrorKind::Integrity,
            SessionError::Cancelled { .. } => ErrorKind::Cancelled,
            _ => ErrorKind::System,
        }
    }
}

impl CallError {
    /// Returns the kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            CallError::Station(error) => error.kind(),
            CallError::Node(
                NodeError::System { .. } | NodeError::OtherUser { .. } | NodeError::Open(_),
            ) => ErrorKind::System,
            CallError::Node(_) => ErrorKind::Usage,
            CallError::Forked(_) | CallError::Unkeyed(_) => ErrorKind::Usage,
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
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        use CommunicatorError::{
            Busy, Closed, Cut, DeadAfter, Deaf, Elements, Gone, Left, Length, Mismatch, Missing,
            Mtu, Name, Namesakes, Network, NetworksDiffer, NoSuchRank, NotJoined, NotOfSubgroup,
            OtherBuild, Outlawed, PresetsDiffer, Running, Size, SizesDiffer, Tag, TimedOut,
            TooMany, TwoProcesses, Unconfirmed, Unfit, Unshrunk,
        };
        match self {
            Missing { .. } | Unconfirmed { .. } | TimedOut { .. } | Unshrunk { .. } => {
                ErrorKind::Nobody
            }
            Name { .. } | Size { .. } | Mtu { .. } | SizesDiffer { .. } | PresetsDiffer { .. } => {
                ErrorKind::Usage
            }
            Namesakes { .. }
            | OtherBuild(_)
            | Network { .. }
            | NetworksDiffer { .. }
            | Unfit { .. } => ErrorKind::Usage,
            DeadAfter { .. } | TwoProcesses { .. } | TooMany { .. } | Running { .. } => {
                ErrorKind::Usage
            }
            NotJoined
            | NotOfSubgroup { .. }
            | Closed
            | Busy { .. }
            | NoSuchRank { .. }
            | Length { .. }
            | Elements { .. }
            | Tag { .. } => ErrorKind::Usage,
            Mismatch { .. } => ErrorKind::Mismatch,
            Gone(_) | Outlawed | Left(_) | Cut(..) | Deaf(_) => ErrorKind::Gone,
            _ => ErrorKind::SomeFailed,
        }
    }
}

impl StationError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            StationError::Interface(_) | StationError::Open(_) => ErrorKind::System,
            _ => ErrorKind::Usage,
        }
    }
}
