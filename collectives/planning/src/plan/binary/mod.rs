//! Contention-free trees of bounded degree: binary (Patarasuk 2008 §4.1.2, Algorithm 2) and k-ary (its extension).
//!
//! Figure 4 finds, for every run of places of the chain's order, a binary tree of small height. Its first place is the
//! root, the next the left child. The right child is the place that makes the tree lowest among those the root can
//! reach without contention with the left sub-tree. As printed that takes O(P⁴); here equal trees take P³/6 steps of
//! two instructions each, eight at a time where the compiler uses vectors. Whether the root can reach a place does not
//! depend on the left sub-tree ([`may_pass`]), and only heights are kept, because the final tree follows from them.

use super::line::{Fork, Line, may_pass};
use super::speeds::Speeds;
use super::tree::Plan;
use super::via::Via;
use super::{PlanError, layers};
use crate::topology::Topology;

/// Limit of ranks for which [`binary`] runs Algorithm 2, whose memory is this number's square in
/// bytes.
pub const ALGORITHM_2_RANKS: usize = 4_096;

/// Plans a binary tree over `members` (host ids; a member's rank is its index) from the member `root_host`; a rank
/// sends to its left child first.
///
/// Up to [`ALGORITHM_2_RANKS`] members this is the tree of Algorithm 2. Above, it is the tree of [`kary`]
/// with two children, found in O(P·log²P) on usual topologies: free of contention too, and never higher as long as the
/// search stays within the bound that is documented there.
///
/// # Errors
/// The errors of [`chain`](super::chain()).
pub fn binary(topology: &Topology, root_host: usize, members: &[usize]) -> Result<Plan, PlanError> {
    binary_sparing(topology, root_host, members, None)
}

/// Plans a binary tree where some cables and hosts are slow: hosts behind slow cables come last,
/// and slow hosts get as few children as the tree allows.
pub(super) fn binary_sparing(
    topology: &Topology,
    root_host: usize,
    members: &[usize],
    speeds: Option<&Speeds>,
) -> Result<Plan, PlanError> {
    let mut line = Line::sparing(topology, root_host, members, speeds)?;
    let forks = line.forks();
    let places = members.len();
    let parents = if places <= ALGORITHM_2_RANKS {
        Heights::new(&forks).parents(0, places - 1)
    } else {
        layers::parents(&forks, 2)
    };
    line.spare_slow_hosts(&parents, members, speeds);
    line.plan(Via::Binary, &parents)
}

/// Plans a tree with up to `most_children` children over `members` (host ids; a member's rank is its index) from the
/// member `root_host`; a rank sends to its children in the order of the chain.
///
/// A run of places of the chain's order is partitioned into up to k runs, one for each sub-tree, such that no send of
/// the root has contention with one inside an earlier sub-tree. Among all such trees this is one of the least height,
/// so with two children it is never higher than [`binary`]: a rank may have fewer children than it could, which
/// Algorithm 2 does not consider.
///
/// Time O(H·k·N·log P) and memory O(k·N + H·P) for P members and height H, N being P times the number of switches above
/// a host that are not the last below their own: few in a usual network. On networks thousands of switches deep, where
/// this would take more than 2²⁴ entries, the tree is higher than need be, at most P/2, and still free of contention.
///
/// # Errors
/// The errors of [`chain`](super::chain()), and [`PlanError::Children`] unless `most_children` is one of
/// [`Via::KARY_CHILDREN`].
pub fn kary(topology: &Topology, root_host: usize, members: &[usize], most_children: u8) -> Result<Plan, PlanError> {
    kary_sparing(topology, root_host, members, most_children, None)
}

pub(super) fn kary_sparing(
    topology: &Topology,
    root_host: usize,
    members: &[usize],
    most_children: u8,
    speeds: Option<&Speeds>,
) -> Result<Plan, PlanError> {
    if !Via::KARY_CHILDREN.contains(&most_children) {
        return Err(PlanError::Children(most_children));
    }
    let mut line = Line::sparing(topology, root_host, members, speeds)?;
    let parents = layers::parents(&line.forks(), usize::from(most_children));
    line.spare_slow_hosts(&parents, members, speeds);
    line.plan(Via::Kary(most_children), &parents)
}

/// Wide enough for a tree that is a chain of [`ALGORITHM_2_RANKS`]; signed, because SSE2 compares
/// signed numbers.
type Height = i16;

/// Marks a right child that would cause contention; one more must still fit.
const TALL: Height = Height::MAX - 1;

/// Table `best` of Figure 4.
struct Heights<'a> {
    forks: &'a [Fork],
    /// `to[j][i]` is the height of the tree over the places `i..=j`.
    to: Vec<Vec<Height>>,
}

impl<'a> Heights<'a> {
    fn new(forks: &'a [Fork]) -> Self {
        let places = forks.len() + 1;
        let to = (0..places).map(|last| vec![0; last + 1]).collect();
        let mut heights = Self { forks, to };
        let mut lefts = Vec::with_capacity(places);
        for root in (0..places).rev() {
            heights.list_lefts(root, &mut lefts);
            for last in root + 1..places {
                heights.to[last][root] =
                    if last == root + 1 { 1 } else { lowest(&lefts, &heights.to[last][root + 2..]) + 1 };
            }
        }
        heights
    }

    fn list_lefts(&self, root: usize, lefts: &mut Vec<Height>) {
        let end = self.forks.get(root).map_or(0, |fork| (fork.last + 2).min(self.to.len()));
        let left = |right: usize| if may_pass(self.forks, root, right) { self.to[right - 1][root + 1] } else { TALL };
        lefts.clear();
        lefts.extend((root + 2..end).map(left));
    }

    /// Returns the parent of each place in the tree over the places `first..=last`; 0 for the other
    /// places and `first`.
    fn parents(&self, first: usize, last: usize) -> Vec<usize> {
        let mut parents = vec![0; self.to.len()];
        let mut waiting = vec![(first, last)];
        while let Some((root, last)) = waiting.pop() {
            if last > root {
                parents[root + 1] = root;
            }
            if last > root + 1 {
                let right = self.right_child(root, last);
                parents[right] = root;
                waiting.extend([(root + 1, right - 1), (right, last)]);
            }
        }
        parents
    }

    /// Returns the first place that minimises the tree over `root..=last` (lines (16) to (23)).
    fn right_child(&self, root: usize, last: usize) -> usize {
        let is_best = |&right: &usize| {
            may_pass(self.forks, root, right)
                && self.to[right - 1][root + 1].max(self.to[last][right]) + 1 == self.to[last][root]
        };
        (root + 2..=last).find(is_best).expect("the height came from one of these places")
    }
}

fn lowest(lefts: &[Height], rights: &[Height]) -> Height {
    lefts.iter().zip(rights).fold(TALL, |lowest, (&left, &right)| lowest.min(left.max(right)))
}

#[cfg(test)]
mod tests;
