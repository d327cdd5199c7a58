//! Entry point to all planners: makes the plan of a route.

use super::best;
use super::binary::{binary_sparing, kary_sparing};
use super::by_rank::by_rank;
use super::chain;
use super::error::PlanError;
use super::latency::latency;
use super::line::rank_hosts;
use super::speeds::{Speeds, USUAL};
use super::tree::Plan;
use super::via::Via;
use crate::topology::{Topology, Walk};
use std::cell::RefCell;

/// Cost of an edge by the switches it crosses, which only [`Via::Latency`] uses; and relative
/// speeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs<'a> {
    /// Time in which a host sends the message to one other, in nanoseconds.
    pub injection_ns: u64,
    /// Time from the end of that until the receiver has the message, without the switches, in
    /// nanoseconds.
    pub latency_ns: u64,
    /// Time added by each switch on the path, in nanoseconds.
    pub hop_ns: u64,
    /// Cables and hosts that are slower than the others, if any: trees use them last, and avoid
    /// hanging hosts below them.
    pub speeds: Option<&'a Speeds>,
}

impl Default for Costs<'_> {
    /// Costs of a frame of 1 500 bytes at 1 Gbit/s through store-and-forward switches: 12 µs to
    /// send and again at each switch, and half of Patarasuk 2008's smallest L(m), 46 µs, to wake
    /// the receiver (Table 2).
    fn default() -> Self {
        Self { injection_ns: 12_000, latency_ns: 23_000, hop_ns: 12_000, speeds: None }
    }
}

/// Plans `via` over `members` (host ids; a member's rank is its index) from the member `root_host`.
///
/// Routes that are not [topology-aware](Via::is_topology_aware) go by rank. For block-wise routes
/// this is the tree of the scatter; [`blocks`](super::blocks()) returns the blocks' own.
///
/// # Errors
/// [`PlanError`] if the root is no member, a member is no host of the topology or named twice, or
/// `via` is a k-ary tree of a number of children out of range.
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
        Via::Chain => chain::sparing(topology, root_host, members, costs.speeds),
        Via::Binary => binary_sparing(topology, root_host, members, costs.speeds),
        Via::BinaryBest => best::binary_best(topology, root_host, members, costs.speeds),
        Via::Kary(most_children) => kary_sparing(topology, root_host, members, most_children, costs.speeds),
        Via::Latency => {
            let hops = Hops::new(topology, costs.speeds);
            let switches = |from: usize, to: usize| hops.between(members[from], members[to]);
            let weight = |from: usize, to: usize| {
                costs.hop_ns.saturating_mul(switches(from, to)).saturating_add(costs.latency_ns)
            };
            let injection = |from: usize, to: usize| {
                let slowness = u128::from(hops.slowness(members[from], members[to]));
                let time = u128::from(costs.injection_ns) * slowness / u128::from(USUAL);
                u64::try_from(time).unwrap_or(u64::MAX)
            };
            latency(root, ranks, &weight, &injection)
        }
        Via::Cast | Via::Flat | Via::Binomial | Via::ScatterAllgather | Via::RecursiveDoubling => {
            by_rank(via, root, ranks)
        }
        Via::ChainUnaware | Via::BinaryUnaware => by_rank(via, root, ranks),
    }
}

/// Switches between hosts, and slowness of cables. Caches those of the last sender, because
/// planners query one sender after another.
struct Hops<'a> {
    topology: &'a Topology,
    speeds: Option<&'a Speeds>,
    last: RefCell<Option<Ways>>,
}

struct Ways {
    from: usize,
    walk: Walk,
    slowest: Vec<u64>,
}

impl<'a> Hops<'a> {
    fn new(topology: &'a Topology, speeds: Option<&'a Speeds>) -> Self {
        Self { topology, speeds, last: RefCell::new(None) }
    }

    fn between(&self, from: usize, to: usize) -> u64 {
        self.ask(from, |ways| ways.walk.depth()[self.topology.switch_of(to)] as u64 + 1)
    }

    fn slowness(&self, from: usize, to: usize) -> u64 {
        let Some(speeds) = self.speeds else { return USUAL };
        let on_the_way = self.ask(from, |ways| ways.slowest[self.topology.switch_of(to)]);
        on_the_way.max(speeds.sending(from)).max(speeds.receiving(to))
    }

    fn ask(&self, from: usize, answer: impl Fn(&Ways) -> u64) -> u64 {
        let from = self.topology.switch_of(from);
        let mut last = self.last.borrow_mut();
        if last.as_ref().is_none_or(|ways| ways.from != from) {
            let walk = Walk::from(self.topology, from);
            let slowest = self.speeds.map(|speeds| speeds.along(self.topology, &walk)).unwrap_or_default();
            *last = Some(Ways { from, walk, slowest });
        }
        last.as_ref().map_or(0, answer)
    }
}

#[cfg(test)]
mod tests;
