//! Why a process cannot take a seat in its node.

use crate::packet::error::{Errno, OpenError};
use std::path::PathBuf;

/// Why a process has no part in the port of its host; each sentence says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The port cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The group's processes on this host are another user's.
    #[error(
        "group {group} on this host is of user {uid} ({path}), this process of user {own}: run all ranks of a group on \
         a host as one user, or give this one another group; if nobody runs there any more, let that user remove the \
         file"
    )]
    OtherUser {
        /// The group.
        group: String,
        /// What the processes share.
        path: PathBuf,
        /// Whose it is.
        uid: u32,
        /// Whose this process is.
        own: u32,
    },
    /// They were told something else.
    #[error("other ranks of group {group} on this host were told {what} {theirs}, this one {ours}: tell all the same")]
    Differs {
        /// The group.
        group: String,
        /// What.
        what: &'static str,
        /// What they were told.
        theirs: String,
        /// What this one was told.
        ours: String,
    },
    /// They are of another build, or their interface's MTU was another when they came.
    #[error(
        "{path} is of ranks of another build of ethbcast, or was made before the interface's MTU was changed: install \
         the same build for all ranks of a host, and start them again"
    )]
    OtherLayout {
        /// What they share.
        path: PathBuf,
    },
    /// There are too many of them.
    #[error("group {group} has {most} ranks on this host already: place the others on other hosts")]
    Full {
        /// The group.
        group: String,
        /// As many as there can be.
        most: usize,
    },
    /// The system refuses what they would share.
    #[error("cannot {step} {path} ({errno}), through which the ranks of one host reach each other")]
    System {
        /// What.
        path: PathBuf,
        /// What was being done.
        step: &'static str,
        /// Why not.
        errno: Errno,
    },
}
