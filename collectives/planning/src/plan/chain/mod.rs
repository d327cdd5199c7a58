//! The contention-free linear tree (Patarasuk 2008 §4.1.1, Algorithm 1).
//!
//! Switches are numbered in the order a depth-first search from the root's switch arrives at them; the chain visits the
//! hosts switch by switch in that order. The search walks every cable once in each direction, so no two hops of the
//! chain cross a cable in the same direction (Theorem 1). Leaving hosts out joins consecutive hops into one whose path
//! is part of theirs, so a chain over some of the hosts is contention-free too (Lemma 2).

use super::error::PlanError;
use super::line::Line;
use super::speeds::Speeds;
use super::tree::Plan;
use super::via::Via;
use crate::topology::Topology;

/// Plans a chain over `members` (host ids; a member's rank is its index), starting at the member `root_host`.
///
/// Switches, if the search has a choice, are visited by how many steps a tree over the members at and below them
/// takes, the fewest first, so that [`binary`](super::binary()), which starts from the same order, gets low trees; of
/// equals those with fewer members first, then by id. The members on one switch come by host id. Hosts that are not
/// members do not take part. Linear in hosts, and S·log S for S switches.
///
/// # Errors
/// [`PlanError`] if the root is no member, a member is no host of the topology, or a member is named twice.
pub fn chain(topology: &Topology, root_host: usize, members: &[usize]) -> Result<Plan, PlanError> {
    sparing(topology, root_host, members, None)
}

/// Plans a chain where some cables and hosts are slow: hosts behind slow cables come last, and slow
/// hosts are last on their switch.
pub(super) fn sparing(
    topology: &Topology,
    root_host: usize,
    members: &[usize],
    speeds: Option<&Speeds>,
) -> Result<Plan, PlanError> {
    let mut line = Line::sparing(topology, root_host, members, speeds)?;
    let before: Vec<usize> = (0..members.len()).map(|place| place.saturating_sub(1)).collect();
    line.spare_slow_hosts(&before, members, speeds);
    line.plan(Via::Chain, &before)
}

#[cfg(test)]
mod tests;
