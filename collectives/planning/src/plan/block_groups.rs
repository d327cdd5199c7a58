//! Grouping of a scatter's blocks: short ones share a message, and those for the most distant ranks
//! are sent first. A gather is the reverse.

use super::tree::Plan;
use crate::topology::Topology;
use std::cmp::Reverse;

/// Blocks that travel together between a rank and one of its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockGroup {
    /// The child.
    pub child: usize,
    /// Ranks whose blocks these are, in order.
    pub ranks: Vec<usize>,
}

/// Returns the ranks but the root, those first that have the longest way from it: the most relays,
/// then the most switches, then the lower rank.
///
/// # Panics
/// Unless `host_of_rank` names a host of the topology for each rank.
pub fn farthest_first(plan: &Plan, topology: &Topology, host_of_rank: &[usize]) -> Vec<usize> {
    let depths = depths(plan);
    let hops = topology.hops_from(topology.switch_of(host_of_rank[plan.root()]));
    let hops = |rank: usize| hops[topology.switch_of(host_of_rank[rank])];
    let mut ranks: Vec<usize> = (0..plan.ranks()).filter(|&rank| rank != plan.root()).collect();
    ranks.sort_by_key(|&rank| Reverse((depths[rank], hops(rank))));
    ranks
}

fn depths(plan: &Plan) -> Vec<usize> {
    let mut depths = vec![0; plan.ranks()];
    let mut downward = vec![plan.root()];
    while let Some(rank) = downward.pop() {
        for &child in plan.children(rank) {
            depths[child] = depths[rank] + 1;
            downward.push(child);
        }
    }
    depths
}

/// Returns the groups of blocks between `rank` and its children, for blocks in `order` and up to `most` per
/// group: each child's own and those of all behind it. A group has the position of its first
/// block.
///
/// # Panics
/// If `order` names a rank that does not exist.
pub fn parcels(plan: &Plan, order: &[usize], rank: usize, most: usize) -> Vec<BlockGroup> {
    let mut parcels: Vec<BlockGroup> = Vec::new();
    let behind = behind(plan, rank);
    // The group being filled for each child.
    let mut open: Vec<Option<usize>> = vec![None; plan.ranks()];
    for &to in order {
        let Some(child) = behind[to] else { continue };
        let fits = open[child].filter(|&at| parcels[at].ranks.len() < most);
        let at = fits.unwrap_or_else(|| {
            parcels.push(BlockGroup { child, ranks: Vec::new() });
            parcels.len() - 1
        });
        parcels[at].ranks.push(to);
        open[child] = Some(at);
    }
    parcels
}

/// Returns for each rank the child of `rank` that it is behind, or is.
fn behind(plan: &Plan, rank: usize) -> Vec<Option<usize>> {
    let mut behind = vec![None; plan.ranks()];
    for &child in plan.children(rank) {
        let mut below = vec![child];
        while let Some(next) = below.pop() {
            behind[next] = Some(child);
            below.extend(plan.children(next));
        }
    }
    behind
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Costs, Via, make};

    fn parcel(child: usize, ranks: &[usize]) -> BlockGroup {
        BlockGroup { child, ranks: ranks.to_vec() }
    }

    #[test]
    fn a_rank_sends_each_child_its_block_and_those_of_all_behind_it_the_farthest_first() {
        let children = [vec![1, 2], vec![3, 4], vec![5], vec![], vec![], vec![]];
        let plan = Plan::from_children(Via::Binary, 0, &children).expect("a plan");
        let topology = Topology::single_switch((0..6).map(|host| format!("n{host}"))).expect("hosts");
        let order = farthest_first(&plan, &topology, &[0, 1, 2, 3, 4, 5]);
        assert_eq!(order, [3, 4, 5, 1, 2]);
        let both = [parcel(1, &[3, 4]), parcel(2, &[5, 2]), parcel(1, &[1])];
        assert_eq!(parcels(&plan, &order, 0, 2), both);
        assert_eq!(parcels(&plan, &order, 0, 9), [parcel(1, &[3, 4, 1]), parcel(2, &[5, 2])]);
        assert_eq!(parcels(&plan, &order, 1, 1), [parcel(3, &[3]), parcel(4, &[4])]);
        assert_eq!(parcels(&plan, &order, 5, 1), []);
    }

    #[test]
    fn every_block_passes_every_edge_on_its_way_once_and_no_other() {
        let topology = Topology::builtin("fig9-5").expect("a test bed");
        let hosts: Vec<usize> = (0..topology.hosts().len()).collect();
        for via in [Via::Flat, Via::Chain, Via::Binary, Via::Kary(4)] {
            let plan = make(via, &topology, 7, &hosts, &Costs::default()).expect("a plan");
            let order = farthest_first(&plan, &topology, &hosts);
            let depths = depths(&plan);
            for most in [1, 5, 100] {
                let mut hops = vec![0; plan.ranks()];
                for rank in 0..plan.ranks() {
                    for BlockGroup { ranks, .. } in parcels(&plan, &order, rank, most) {
                        assert!((1..=most).contains(&ranks.len()));
                        ranks.iter().for_each(|&rank| hops[rank] += 1);
                    }
                }
                assert_eq!(hops, depths, "{via}");
            }
        }
    }

    #[test]
    fn among_the_roots_own_children_those_behind_more_switches_come_first() {
        let topology = Topology::builtin("fig9-4").expect("a test bed");
        let hosts: Vec<usize> = (0..topology.hosts().len()).collect();
        let plan = make(Via::Flat, &topology, 0, &hosts, &Costs::default()).expect("a plan");
        let hops = topology.hops_from(topology.switch_of(0));
        let order = farthest_first(&plan, &topology, &hosts);
        assert!(order.windows(2).all(|pair| hops[topology.switch_of(pair[0])] >= hops[topology.switch_of(pair[1])]));
    }
}
