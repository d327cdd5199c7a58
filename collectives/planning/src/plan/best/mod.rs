//! Search in bounded time for binary trees that are lower than Algorithm 2's.
//!
//! Algorithm 2 finds the tree over one line of the hosts, that of one depth-first search, and every sub-tree is a run
//! of it. Two searches try alternatives, and the lower tree is taken:
//! - other **orders of children**: Algorithm 2 over lines that visit the switches below a switch in other orders;
//! - other **lines**, or none at all ([`levels`]): trees built level by level, in which every host sends to hosts that
//!   it can reach over unused cables.
//!
//! Both use one fixed sequence of numbers on every host, a bounded number of steps and no clock: equal input gives
//! equal plans.

mod levels;

use super::binary::binary_sparing;
use super::error::PlanError;
use super::layers;
use super::line::Line;
use super::speeds::Speeds;
use super::tree::Plan;
use super::via::Via;
use crate::topology::Topology;
use levels::Levels;

/// Limit of places laid out in trials of orders: some 0.1 s.
const MAX_PLACES: usize = 50_000;
const MAX_ORDERS: usize = 400;

/// Plans the lowest contention-free binary tree that the search finds over `members` (host ids; a
/// member's rank is its index) from the member `root_host`; never a higher one than
/// [`binary`](super::binary()).
///
/// # Errors
/// The errors of [`chain`](super::chain()).
pub fn binary_best(
    topology: &Topology,
    root_host: usize,
    members: &[usize],
    speeds: Option<&Speeds>,
) -> Result<Plan, PlanError> {
    let mut best = binary_sparing(topology, root_host, members, speeds)?;
    let least = members.len().ilog2() as usize;
    let mut dice = Dice::new();
    for _ in 0..(MAX_PLACES / members.len()).min(MAX_ORDERS) {
        if best.height() == least {
            break;
        }
        let mut line = Line::reordered(topology, root_host, members, speeds, |onward| dice.shuffle(onward))?;
        let parents = layers::parents(&line.forks(), 2);
        line.spare_slow_hosts(&parents, members, speeds);
        let plan = line.plan(Via::Binary, &parents)?;
        best = if plan.height() < best.height() { plan } else { best };
    }
    let mut levels = Levels::new(topology, members, best.root());
    while best.height() > least
        && let Some(children) = levels.within(best.height() - 1, &mut dice)
    {
        best = Plan::from_children(Via::Binary, best.root(), &children)?;
    }
    let children: Vec<Vec<usize>> = (0..best.ranks()).map(|rank| best.children(rank).to_vec()).collect();
    Plan::from_children(Via::BinaryBest, best.root(), &children)
}

struct Dice(u64);

impl Dice {
    fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.below(end + 1));
        }
    }
}

#[cfg(test)]
mod tests;
