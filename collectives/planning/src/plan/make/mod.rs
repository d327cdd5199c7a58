//! One door to all planners, by the way a message travels.

use super::binary::{binary, kary};
use super::by_rank::by_rank;
use super::chain::chain;
use super::error::PlanError;
use super::latency::latency;
use super::line::rank_hosts;
use super::tree::Plan;
use super::via::Via;
use crate::topology::{Topology, Walk};
use std::cell::RefCell;

/// What an edge costs by the switches it crosses; only [`Via::Latency`] asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// How long a host is busy sending the message to one other, in nanoseconds.
    pub injection_ns: u64,
    /// From the end of that until the receiver has it, without the switches, in nanoseconds.
    pub latency_ns: u64,
    /// What each switch on the way adds, in nanoseconds.
    pub hop_ns: u64,
}

impl Default for Costs {
    /// A frame of 1 500 bytes at 1 Gbit/s through store-and-forward switches: 12 µs to send and as much again at each
    /// switch, and half of Patarasuk 2008's smallest L(m), 46 µs, to wake the receiver (Table 2).
    fn default() -> Self {
        Self { injection_ns: 12_000, latency_ns: 23_000, hop_ns: 12_000 }
    }
}

/// Plans `via` over `members` (host ids; a member's rank is its index) from the member `root_host`.
///
/// Ways that do not [ask about switches](Via::is_topology_aware) go by rank. For ways in blocks this is the tree of the
/// scatter; [`blocks`](super::blocks()) has the blocks' own.
///
/// # Errors
/// [`PlanError`] if the root is no member, a member is no host of the topology or named twice, or `via` is a k-ary tree
/// of a number of children out of range.
pub fn make(
    via: Via,
    topology: &Topology,
    root_host: usize,
    members: &[usize],
    costs: &Costs,
) -> Result<Plan, PlanError> {
    let rank_of = rank_hosts(topology, members)?;
    let root = rank_of.get(root_host).copied().flatten().ok_or(PlanError::RootNotMember(root_host))?;
    let ranks = members.len();
    match via {
        Via::Chain => chain(topology, root_host, members),
        Via::Binary => binary(topology, root_host, members),
        Via::Kary(most_children) => kary(topology, root_host, members, most_children),
        Via::Latency => {
            let hops = Hops::new(topology);
            let switches = |from: usize, to: usize| hops.between(members[from], members[to]);
            let weight = |from: usize, to: usize| {
                costs.hop_ns.saturating_mul(switches(from, to)).saturating_add(costs.latency_ns)
            };
            latency(root, ranks, &weight, &|_, _| costs.injection_ns)
        }
        Via::Cast | Via::Flat | Via::Binomial | Via::ScatterAllgather | Via::RecursiveDoubling => {
            by_rank(via, root, ranks)
        }
        Via::ChainUnaware | Via::BinaryUnaware => by_rank(via, root, ranks),
    }
}

/// How many switches are between hosts; remembers those of the last sender, for planners ask for one sender after
/// another.
struct Hops<'a> {
    topology: &'a Topology,
    last: RefCell<Option<(usize, Walk)>>,
}

impl<'a> Hops<'a> {
    fn new(topology: &'a Topology) -> Self {
        Self { topology, last: RefCell::new(None) }
    }

    /// The switches on the way from one host to another.
    fn between(&self, from: usize, to: usize) -> u64 {
        let (from, to) = (self.topology.switch_of(from), self.topology.switch_of(to));
        let mut last = self.last.borrow_mut();
        let walk = match &mut *last {
            Some((of, walk)) if *of == from => walk,
            _ => &mut last.insert((from, Walk::from(self.topology, from))).1,
        };
        walk.depth()[to] as u64 + 1
    }
}

#[cfg(test)]
mod tests;
