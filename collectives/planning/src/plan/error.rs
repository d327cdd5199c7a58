//! Reasons why no broadcast tree can be made.

use super::via::Via;
use thiserror::Error;

/// Reason why a plan cannot be made. Ranks and hosts are named by number.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Also the error for a plan over no ranks.
    #[error("rank {root} cannot be the root of a plan over {ranks} ranks; use a rank below {ranks}")]
    NoSuchRoot { root: usize, ranks: usize },
    #[error("rank {root} is the root but has the parent {parent}; the root has none")]
    RootWithParent { root: usize, parent: usize },
    #[error("rank {0} has no parent; every rank but the root needs one")]
    NoParent(usize),
    #[error("rank {rank} has the parent {parent}, but there are only {ranks} ranks; use a parent below {ranks}")]
    NoSuchParent { rank: usize, parent: usize, ranks: usize },
    #[error("rank {0} is not reached from the root; its parents run in a circle and must lead to the root")]
    Circle(usize),
    #[error("rank {rank} has {children} children; with {via} give every rank at most {most}")]
    TooManyChildren { via: Via, rank: usize, children: usize, most: usize },
    #[error("rank {rank} receives from rank {sender}; with {via} everybody receives from the root")]
    Relayed { via: Via, rank: usize, sender: usize },
    #[error("rank {parent} sends to rank {rank}, but there are only {ranks} ranks; use ranks below {ranks}")]
    NoSuchChild { rank: usize, parent: usize, ranks: usize },
    #[error("rank {rank} receives from rank {first} and from rank {second}; give it one parent")]
    TwoParents { rank: usize, first: usize, second: usize },
    #[error("the trees of both halves need the root {root} and {ranks} ranks")]
    OtherTree { root: usize, ranks: usize },
    #[error("the root, host {0}, is not a member; name it among the members")]
    RootNotMember(usize),
    #[error("member {host} is no host of the topology, which has {hosts}; use host ids below {hosts}")]
    NoSuchHost { host: usize, hosts: usize },
    #[error("host {0} is a member twice; name every member once")]
    MemberTwice(usize),
    #[error("a tree cannot be planned for {0} children each; use a number from {low} to \
             {high}", low = Via::KARY_CHILDREN.start(), high = Via::KARY_CHILDREN.end())]
    Children(u8),
}
