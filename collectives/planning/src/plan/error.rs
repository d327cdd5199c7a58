//! Errors of making a plan.

use super::via::Via;
use thiserror::Error;

/// Reason why a plan cannot be made. Ranks and hosts are named by number.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The root is not one of the ranks; also the error for a plan over no ranks.
    #[error("rank {root} cannot be the root of a plan over {ranks} ranks; use a rank below {ranks}")]
    NoSuchRoot {
        /// Requested root.
        root: usize,
        ranks: usize,
    },
    /// The root has a parent.
    #[error("rank {root} is the root but has the parent {parent}; the root has none")]
    RootWithParent { root: usize, parent: usize },
    /// A rank other than the root has no parent.
    #[error("rank {0} has no parent; every rank but the root needs one")]
    NoParent(usize),
    /// The parent of a rank does not exist.
    #[error("rank {rank} has the parent {parent}, but there are only {ranks} ranks; use a parent below {ranks}")]
    NoSuchParent {
        /// The receiving rank.
        rank: usize,
        parent: usize,
        ranks: usize,
    },
    /// A rank is on a cycle that the root does not reach.
    #[error("rank {0} is not reached from the root; its parents run in a circle and must lead to the root")]
    Circle(usize),
    /// A rank has more children than the plan's kind allows.
    #[error("rank {rank} has {children} children; with {via} give every rank at most {most}")]
    TooManyChildren {
        /// The kind of plan.
        via: Via,
        rank: usize,
        children: usize,
        /// Limit of children.
        most: usize,
    },
    /// A rank other than the root sends where only the root may.
    #[error("rank {rank} receives from rank {sender}; with {via} everybody receives from the root")]
    Relayed {
        /// The kind of plan.
        via: Via,
        /// The receiving rank.
        rank: usize,
        /// The rank that sends to it.
        sender: usize,
    },
    /// A rank has a child that does not exist.
    #[error("rank {parent} sends to rank {rank}, but there are only {ranks} ranks; use ranks below {ranks}")]
    NoSuchChild {
        /// The receiving rank.
        rank: usize,
        /// The sending rank.
        parent: usize,
        ranks: usize,
    },
    /// A rank has two parents.
    #[error("rank {rank} receives from rank {first} and from rank {second}; give it one parent")]
    TwoParents {
        /// The receiving rank.
        rank: usize,
        /// One sender.
        first: usize,
        /// The other sender.
        second: usize,
    },
    /// The second of two trees has another root, or other ranks.
    #[error("the trees of both halves need the root {root} and {ranks} ranks")]
    OtherTree { root: usize, ranks: usize },
    /// The root host is not among the members.
    #[error("the root, host {0}, is not a member; name it among the members")]
    RootNotMember(usize),
    /// A member is not in the topology.
    #[error("member {host} is no host of the topology, which has {hosts}; use host ids below {hosts}")]
    NoSuchHost {
        /// The host id.
        host: usize,
        /// Number of hosts in the topology.
        hosts: usize,
    },
    /// A host is named twice among the members.
    #[error("host {0} is a member twice; name every member once")]
    MemberTwice(usize),
    /// Invalid number of children for [`Via::Kary`].
    #[error("a tree cannot be planned for {0} children each; use a number from {low} to \
             {high}", low = Via::KARY_CHILDREN.start(), high = Via::KARY_CHILDREN.end())]
    Children(u8),
}
