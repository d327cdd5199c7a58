//! Contention-free trees with up to k children (Patarasuk 2008 §4.1.2, the extension of Algorithm 2).

use super::line::Line;
use super::{Plan, PlanError, Via, layers};
use crate::topology::Topology;

/// Plans a tree with up to `most_children` children over `members` (host ids; a member's rank is its index) from the member
/// `root_host`; a rank sends to its children in the order of the chain.
///
/// A run of places of the chain's order is partitioned into up to k runs, one for each sub-tree, such that no send of the
/// root has contention with one inside an earlier sub-tree. Among all such trees this is one of the least height, so with
/// two children it is never higher than [`binary`](super::binary()): a rank may have fewer children than it could, which
/// Algorithm 2 does not consider.
///
/// Time O(H·k·N·log P) and memory O(k·N + H·P) for P members and height H, N being P times the number of switches above a
/// host that are not the last below their own: few in a usual network. On networks thousands of switches deep, where this
/// would take more than 2²⁴ entries, the tree is higher than need be, at most P/2, and still free of contention.
///
/// # Errors
/// As [`chain`](super::chain()), and [`PlanError::Children`] unless `most_children` is one of [`Via::KARY_CHILDREN`].
pub fn kary(topology: &Topology, root_host: usize, members: &[usize], most_children: u8) -> Result<Plan, PlanError> {
    if !Via::KARY_CHILDREN.contains(&most_children) {
        return Err(PlanError::Children { children: most_children });
    }
    let line = Line::new(topology, root_host, members)?;
    line.plan(Via::Kary(most_children), &layers::parents(&line.forks(), usize::from(most_children)))
}

#[cfg(test)]
mod tests;
