//! Several processes on one host (a *node*) that share one packet socket (EQA §3).
//!
//! They share one port and one memory. A frame from one process to another goes through that memory
//! only. A frame to all is stored once for the node and sent once on the wire. A frame that arrives
//! for all is stored once, too. Each process has a local port id, carried beside the interface's
//! address in every frame (`MacAddr::seat`): on the wire a node is one address.
//!
//! The holder of the receive lock (`Receive`) receives from the wire for all. If it ends, another
//! process takes the lock within 50 ms; frames in between are lost and sent again.
//!
//! `board` is the layout of the shared `memory`. `place` is the file where processes meet; its
//! locks show which are alive. `waiter` and `wake_up_socket` put them to sleep and wake them.
//! `port` is the [`Link`](crate::Link), and queues frames.

mod board;
mod memory;
mod place;
mod port;
#[cfg(test)]
mod tests;

use super::error::{Errno, OpenError};
pub use place::{NodeConfig, NodeWaiter};
pub use port::NodePort;
use std::path::PathBuf;

/// Reason why a process cannot share the port of its host, with advice.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The group's processes on this host belong to another user.
    #[error(
        "group {group} on this host is of user {uid} ({path}), this process of user {own}: run all ranks of a group on \
         a host as one user, or give this one another group; if nobody runs there any more, let that user remove the \
         file"
    )]
    OtherUser {
        group: String,
        path: PathBuf,
        uid: u32,
        own: u32,
    },
    #[error(
        "other ranks of group {group} on this host have {what} {theirs}, this one {ours}: give all the same"
    )]
    Differs {
        group: String,
        what: &'static str,
        theirs: String,
        ours: String,
    },
    /// They run another build, or the interface's MTU has changed since they started.
    #[error(
        "{path} is of ranks of another build of ethbcast, or was made before the interface's MTU was changed: install \
         the same build for all ranks of a host, and start them again"
    )]
    OtherLayout { path: PathBuf },
    #[error("group {group} has {most} ranks on this host already: place the others on other hosts")]
    Full { group: String, most: usize },
    #[error("cannot {step} {path} ({errno}), through which the ranks of one host reach each other")]
    System {
        path: PathBuf,
        step: &'static str,
        errno: Errno,
    },
}
