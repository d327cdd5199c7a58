//! What a communicator can fail with.

use super::signature::Signature;
use crate::membership::OtherBuild;
use ethbcast_transport::messages::{RecvError, SendError};
use ethbcast_transport::wire::Rank;
use std::fmt;
use thiserror::Error;

/// A rank and the name of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The rank.
    pub rank: Rank,
    /// Its host.
    pub host: String,
}

impl fmt::Display for Named {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "rank {} ({})", self.rank, self.host)
    }
}

/// Who keeps a collective from being done, as far as the ranks know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Culprit {
    /// A rank that is heard has not made the call.
    NotEntered(Named),
    /// A rank that is heard and waits for nobody takes nothing from the other.
    TakesNothing(Named, Named),
    /// Two ranks that are heard wait for each other.
    Between(Named, Named),
}

impl fmt::Display for Culprit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Culprit::NotEntered(rank) => write!(out, "{rank} has not entered it"),
            Culprit::TakesNothing(rank, from) => write!(out, "{rank} takes no frames from {from}"),
            Culprit::Between(one, other) => write!(out, "nothing gets through between {one} and {other}"),
        }
    }
}

/// Why a communicator cannot be joined, or a call on it fails; each sentence says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CommunicatorError {
    /// A name that is empty or too long.
    #[error("the {what} name has {bytes} bytes: choose one of 1 to {most}")]
    Name {
        /// Whose name.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The longest there may be.
        most: usize,
    },
    /// No such number of ranks.
    #[error("there cannot be {size} ranks: ask for 1 to {most}")]
    Size {
        /// The number asked for.
        size: u16,
        /// The largest there may be.
        most: u16,
    },
    /// Frames of this interface are too short.
    #[error("frames of {mtu_bytes} bytes are too short: raise the interface's MTU to {least} or more")]
    Mtu {
        /// What it carries.
        mtu_bytes: u16,
        /// What is needed.
        least: u16,
    },
    /// Another process was told another number of ranks.
    #[error("{host} waits for {theirs} ranks, this process for {ours}: give all processes of a group the same size")]
    SizesDiffer {
        /// The other host.
        host: String,
        /// What it was told.
        theirs: u16,
        /// What this process was told.
        ours: u16,
    },
    /// Another process uses other numbers of the protocol.
    #[error("{host} runs another preset than this process: give all processes of a group the same")]
    PresetsDiffer {
        /// The other host.
        host: String,
    },
    /// What this process was told of the network is not about this group, or contradicts itself.
    #[error("{why}")]
    Network {
        /// What is wrong, with file and line where it was read from one, and what to do.
        why: String,
    },
    /// What another process was told of the network is not about this group.
    #[error("{host} cannot take part: what it was told of the network is not about this group; it says what is wrong")]
    Unfit {
        /// The other host.
        host: String,
    },
    /// Two processes were told different things of the network.
    #[error(
        "{one} and {other} were told different things of the network (topology, calibration, plan or way): give both \
         the same files and options, or only one of them any"
    )]
    NetworksDiffer {
        /// The one host.
        one: String,
        /// The other.
        other: String,
    },
    /// Another process is of another version of the protocol.
    #[error("{0}")]
    OtherBuild(OtherBuild),
    /// Two hosts have the same name.
    #[error("two hosts are called {host}: give each process a host name of its own, ranks follow them")]
    Namesakes {
        /// The name.
        host: String,
    },
    /// Two processes call from the same interface and do not know of each other.
    #[error(
        "two processes of this group run on {host} and do not see each other: let both have the same /dev/shm (in \
         containers, too), end one, or give them groups of their own"
    )]
    TwoProcesses {
        /// The host.
        host: String,
    },
    /// More processes than there are ranks.
    #[error(
        "{} processes want to be one of {size} ranks ({}): end those that are too many, or raise the size",
        hosts.len(), hosts.join(", ")
    )]
    TooMany {
        /// How many there should be.
        size: u16,
        /// Who is there.
        hosts: Vec<String>,
    },
    /// Not all processes came in time.
    #[error(
        "{} of {size} were there: {}; start the others, one on each host, and see whether they use this group, \
         size and network",
        hosts.len(), hosts.join(", ")
    )]
    Missing {
        /// How many there should be.
        size: u16,
        /// Who was there.
        hosts: Vec<String>,
    },
    /// The group is complete without this process.
    #[error("the group is already running on {}: wait until it has ended, or choose another group", hosts.join(", "))]
    Running {
        /// Hosts of the running group.
        hosts: Vec<String>,
    },
    /// All were heard, but some do not hear all.
    #[error(
        "all {size} were heard, but {} did not confirm the list of all: see whether every host hears every other",
        hosts.join(", ")
    )]
    Unconfirmed {
        /// How many there are.
        size: u16,
        /// Who did not confirm.
        hosts: Vec<String>,
    },
    /// Rank 0 was to measure the network, and what it found has not come.
    #[error(
        "rank 0 ({host}) has not told what it measured of the network: see whether its frames arrive here, or join \
         without a probe"
    )]
    Unmeasured {
        /// Rank 0's host.
        host: String,
    },
    /// A call before all ranks are there.
    #[error("not all ranks are there yet: wait until the group is joined")]
    NotJoined,
    /// A call after this rank has left.
    #[error("this rank has left the group: join again")]
    Closed,
    /// A collective while another one is in progress.
    #[error("{signature} is in progress on this rank: finish or abandon it first")]
    Busy {
        /// The one in progress.
        signature: Signature,
    },
    /// No such rank.
    #[error("there is no rank {rank} among {size}: name a rank from 0 to {}", size - 1)]
    NoSuchRank {
        /// The rank named.
        rank: Rank,
        /// How many there are.
        size: u16,
    },
    /// A buffer of the wrong length.
    #[error(
        "{blocks_bytes} bytes are not {size} blocks of {block_bytes}: pass a buffer of as many bytes as all blocks \
         together"
    )]
    Length {
        /// The length of the buffer for all blocks.
        blocks_bytes: usize,
        /// The length of one block.
        block_bytes: usize,
        /// How many blocks there are.
        size: u16,
    },
    /// A tag that collectives use themselves.
    #[error("tag {tag} is reserved: use tags below 2147483648")]
    Tag {
        /// The tag.
        tag: u32,
    },
    /// A queue of messages is full.
    #[error("too many messages wait: take the outcomes of earlier ones first ({0})")]
    Sends(SendError),
    /// A queue of receives is full.
    #[error("too many receives wait: take the outcomes of earlier ones first ({0})")]
    Receives(RecvError),
    /// Two ranks call different collectives, or the same with another root or length.
    #[error(
        "the ranks' calls differ: {one} is in {}, {other} is in {}; call the same collectives in the same order \
         with the same root and length on all ranks",
        signatures.0, signatures.1
    )]
    Mismatch {
        /// The one rank.
        one: Named,
        /// The other.
        other: Named,
        /// The calls of both.
        signatures: (Signature, Signature),
    },
    /// A rank has fallen silent.
    #[error("{0} is silent: see what became of its process and its cable, then start the group again")]
    Gone(Named),
    /// The others took this rank for gone.
    #[error(
        "the others have not heard this rank for so long that they took it for gone: do not stop its process, then \
         start the group again"
    )]
    Outlawed,
    /// A rank has left the group.
    #[error("{0} has left the group: let all ranks make the same calls before they leave")]
    Left(Named),
    /// A collective stood still for longer than its caller allowed.
    #[error(
        "{signature} was not done in time{}{}: let all ranks call it, or allow more time",
        missing(missing_ranks),
        because(culprit, missing_ranks)
    )]
    TimedOut {
        /// The call.
        signature: Signature,
        /// The ranks that had not called it, as far as is known.
        missing_ranks: Vec<Named>,
        /// Whose fault it seems to be.
        culprit: Option<Box<Culprit>>,
    },
    /// A rank gave a collective up, and the ranks are out of step.
    #[error(
        "{rank} has given up {signature}{}, so that the ranks are out of step: start the group again, with more time \
         for that call",
        because(culprit, &[])
    )]
    Abandoned {
        /// Who gave up.
        rank: Named,
        /// What it gave up.
        signature: Signature,
        /// Whose fault it seemed to be.
        culprit: Option<Box<Culprit>>,
    },
    /// A rank is heard by some and not by others.
    #[error("nothing gets through between {0} and {1}: see the cables and the switch between them, then start again")]
    Cut(Named, Named),
    /// A rank hears most of the others no more.
    #[error("{0} hears the others no more: see its cable, or what became of them, then start the group again")]
    Deaf(Named),
    /// A rank sends what is no part of the collective in progress, and it is not known of which.
    #[error(
        "{0} sends what does not belong to this call: make the same calls on all ranks, and run the same version \
         everywhere"
    )]
    Garbled(Named),
}

impl CommunicatorError {
    /// Whether messages that others have asked for have to end first.
    pub fn is_queue_full(&self) -> bool {
        use CommunicatorError::{Receives, Sends};
        matches!(self, Sends(SendError::QueueFull { .. }) | Receives(RecvError::QueueFull { .. }))
    }
}

fn missing(ranks: &[Named]) -> String {
    let names: Vec<String> = ranks.iter().map(Named::to_string).collect();
    if names.is_empty() { String::new() } else { format!(", {} had not called it", names.join(", ")) }
}

/// The culprit, unless it is among those said to be missing.
fn because(culprit: &Option<Box<Culprit>>, missing: &[Named]) -> String {
    match culprit.as_deref() {
        Some(Culprit::NotEntered(rank)) if missing.contains(rank) => String::new(),
        Some(culprit) => format!(", {culprit}"),
        None => String::new(),
    }
}
