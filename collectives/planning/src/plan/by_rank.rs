//! Broadcast trees made from rank numbers alone (chain, binomial, …), without regard to the
//! switches.
//!
//! The binomial tree is MPICH's: a rank counted from the root receives from the one without its
//! lowest set bit, and sends to those with one more bit below it, the highest first, because that
//! child has the most to forward. It carries whole messages, and scatters the blocks of block-wise
//! ones (Patarasuk 2008 §3.1, as MPICH does it): the message is cut into as many blocks as there
//! are ranks, and block b is for the rank that is b after the root. The block goes down the
//! binomial tree to that rank and from there to all others, by one round of a ring or by recursive
//! doubling. In step s of recursive doubling the ranks v that have the block, those with v xor b
//! below 2^s, send it to v xor 2^s. Recursive doubling needs a power of two; for other numbers of
//! ranks blocks go round, as in MPICH. A rank on the path down has the block already and gets it
//! only once.
//!
//! Ranks are counted from the root unless a function takes the root.
//!
//! Blocks of a scatter go down a plan several together where they are short, those with the longest
//! way first. A gather is the reverse.

use super::PlanError;
use super::tree::Plan;
use super::via::Via;
use crate::topology::Topology;
use std::cmp::Reverse;

/// Returns the tree of a route that ignores switches. For block-wise routes it is the tree of the
/// scatter; [`blocks`] returns the route of each block.
///
/// Ranks, counted from the root, send as follows:
/// - [`Cast`](Via::Cast) (EQA): the root to all at once, because the switches make the copies;
/// - [`Flat`](Via::Flat) (Patarasuk 2008 §3.1): the root to the next rank, then to the one after
///   it, and so on round;
/// - [`ChainUnaware`](Via::ChainUnaware) (Patarasuk 2008 §5.2): each to the next, round to the one
///   before the root;
/// - [`BinaryUnaware`](Via::BinaryUnaware) (Patarasuk 2008 §5.2): rank k to 2k + 1, then to 2k + 2;
/// - the others down the binomial tree (Patarasuk 2008 §3.1).
///
/// # Errors
/// [`PlanError::NoSuchRoot`] unless `root < ranks`.
///
/// # Panics
/// If `via` is [topology-aware](Via::is_topology_aware).
pub fn by_rank(via: Via, root: usize, ranks: usize) -> Result<Plan, PlanError> {
    assert!(!via.is_topology_aware(), "{via} needs a topology");
    turned(via, root, ranks, |rank| match via {
        // Receivers of a cast are listed in the order of ranks.
        Via::Cast if rank == 0 => (ranks - root..ranks).chain(1..ranks - root).collect(),
        Via::Flat if rank == 0 => (1..ranks).collect(),
        Via::Cast | Via::Flat => Vec::new(),
        Via::ChainUnaware => (rank + 1..ranks.min(rank + 2)).collect(),
        Via::BinaryUnaware => (2 * rank + 1..ranks.min(2 * rank + 3)).collect(),
        _ => binomial_children(rank, ranks),
    })
}

fn binomial_children(rank: usize, ranks: usize) -> Vec<usize> {
    let lowest_bit = if rank == 0 {
        ranks.next_power_of_two()
    } else {
        rank & rank.wrapping_neg()
    };
    let masks = std::iter::successors(Some(lowest_bit / 2), |mask| Some(mask / 2))
        .take_while(|&mask| mask > 0);
    masks
        .map(|mask| rank + mask)
        .filter(|&child| child < ranks)
        .collect()
}

fn turned(
    via: Via,
    root: usize,
    ranks: usize,
    children: impl Fn(usize) -> Vec<usize>,
) -> Result<Plan, PlanError> {
    if root >= ranks {
        return Err(PlanError::NoSuchRoot { root, ranks });
    }
    let actual = |rank: usize| (rank + root) % ranks;
    let mut lists = vec![Vec::new(); ranks];
    for rank in 0..ranks {
        lists[actual(rank)] = children(rank).into_iter().map(actual).collect();
    }
    Plan::from_children(via, root, &lists)
}

fn binomial_parent(rank: usize) -> Option<usize> {
    (rank > 0).then(|| rank & (rank - 1))
}

/// Returns one plan for each block, block b being for the rank b after the root.
///
/// Together they have `ranks²` entries; [`block`] makes one of them and [`block_parents`] only its
/// parents.
///
/// # Panics
/// Unless `root < ranks` and `via` [is scattered](Via::is_scattered).
pub fn blocks(via: Via, root: usize, ranks: usize) -> Vec<Plan> {
    assert!(root < ranks, "the root is one of the ranks");
    (0..ranks)
        .map(|number| block(via, root, ranks, number))
        .collect()
}

/// Returns the plan of one block; ranks send to the next on the way down first, then in the steps
/// of the exchange.
///
/// # Panics
/// Unless `root` and `number` are below `ranks` and `via` [is scattered](Via::is_scattered).
pub fn block(via: Via, root: usize, ranks: usize, number: usize) -> Plan {
    let mut children = vec![Vec::new(); ranks];
    for (rank, parent) in block_parents(via, ranks, number).into_iter().enumerate() {
        if let Some(parent) = parent {
            children[parent].push(rank);
        }
    }
    // Down first, because that ends before the exchange begins; then by step, which is the highest
    // bit that differs.
    let step = |rank: usize| {
        if is_on_way_down(rank, number) {
            0
        } else {
            rank ^ number
        }
    };
    children
        .iter_mut()
        .for_each(|list| list.sort_by_key(|&rank| step(rank)));
    let plan = turned(via, root, ranks, |rank| children[rank].clone());
    plan.expect("the way down and the exchange make one tree")
}

/// Returns the rank from which each rank receives block `number`; ranks are counted from the root,
/// which has none.
///
/// # Panics
/// Unless `number < ranks` and `via` [is scattered](Via::is_scattered).
pub fn block_parents(via: Via, ranks: usize, number: usize) -> Vec<Option<usize>> {
    (0..ranks)
        .map(|rank| block_parent(via, ranks, number, rank))
        .collect()
}

/// Returns the rank from which `rank` receives block `number`, computed without the others' plans;
/// ranks are counted from the root.
///
/// # Panics
/// Unless `number` and `rank` are below `ranks` and `via` [is scattered](Via::is_scattered).
pub fn block_parent(via: Via, ranks: usize, number: usize, rank: usize) -> Option<usize> {
    assert!(
        via.is_scattered(),
        "{via} does not travel in blocks of all ranks"
    );
    assert!(
        number < ranks && rank < ranks,
        "there are as many blocks as ranks"
    );
    if is_on_way_down(rank, number) {
        return binomial_parent(rank);
    }
    if doubles(via, ranks) {
        return Some(rank ^ highest_bit(rank ^ number));
    }
    let before = (1..ranks).map(|steps| (rank + ranks - steps) % ranks);
    before
        .into_iter()
        .find(|&before| before == number || !is_on_way_down(before, number))
}

/// Returns the ranks to which `rank` sends block `number`, in sending order, computed without the
/// others' plans; ranks are counted from the root.
///
/// # Panics
/// The panics of [`block_parent`].
pub fn block_children(via: Via, ranks: usize, number: usize, rank: usize) -> Vec<usize> {
    assert!(
        via.is_scattered(),
        "{via} does not travel in blocks of all ranks"
    );
    assert!(
        number < ranks && rank < ranks,
        "there are as many blocks as ranks"
    );
    let way_down = std::iter::successors(Some(number), |&at| binomial_parent(at));
    let down = way_down
        .into_iter()
        .find(|&at| binomial_parent(at) == Some(rank));
    let mut children: Vec<usize> = down.into_iter().collect();
    if doubles(via, ranks) {
        // In step s a rank that has the block gives it to the rank that differs by that step's bit.
        let steps = (0..ranks.ilog2())
            .map(|step| 1 << step)
            .filter(|&bit| bit > rank ^ number);
        let mut others: Vec<usize> = steps
            .map(|bit| rank ^ bit)
            .filter(|&other| !is_on_way_down(other, number))
            .collect();
        others.sort_by_key(|&other| other ^ number);
        children.extend(others);
    } else if rank == number || !is_on_way_down(rank, number) {
        let mut after = (1..ranks)
            .map(|steps| (rank + steps) % ranks)
            .take_while(|&after| after != number);
        children.extend(after.find(|&after| !is_on_way_down(after, number)));
    }
    children
}

fn doubles(via: Via, ranks: usize) -> bool {
    via == Via::RecursiveDoubling && ranks.is_power_of_two()
}

/// Whether block `number` passes `rank` on its way down the binomial tree: `rank` is `number`
/// without some of its lowest set bits.
fn is_on_way_down(rank: usize, number: usize) -> bool {
    std::iter::successors(Some(number), |&rank| binomial_parent(rank)).any(|passed| passed == rank)
}

fn highest_bit(number: usize) -> usize {
    1 << number.ilog2()
}

/// Blocks that travel together between a rank and one of its children, in the order of the ranks
/// that they are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockGroup {
    pub child: usize,
    pub ranks: Vec<usize>,
}

/// Returns the ranks without the root, by decreasing distance from it: the most relays, then the
/// most switches, then the lower rank.
///
/// # Panics
/// Unless `host_of_rank` names a host of the topology for each rank.
pub fn farthest_first(plan: &Plan, topology: &Topology, host_of_rank: &[usize]) -> Vec<usize> {
    let depths = depths(plan);
    let hops = topology.hops_from(topology.switch_of(host_of_rank[plan.root()]));
    let hops = |rank: usize| hops[topology.switch_of(host_of_rank[rank])];
    let mut ranks: Vec<usize> = (0..plan.ranks())
        .filter(|&rank| rank != plan.root())
        .collect();
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

/// Returns the groups of blocks between `rank` and its children, for blocks in `order` and up to
/// `most` per group: the block of each child and those of all ranks below it. A group has the
/// position of its first block.
///
/// # Panics
/// If `order` names a rank that does not exist.
pub fn grouped_blocks(plan: &Plan, order: &[usize], rank: usize, most: usize) -> Vec<BlockGroup> {
    let mut grouped_blocks: Vec<BlockGroup> = Vec::new();
    let behind = behind(plan, rank);
    // The group being filled for each child.
    let mut open: Vec<Option<usize>> = vec![None; plan.ranks()];
    for &to in order {
        let Some(child) = behind[to] else { continue };
        let fits = open[child].filter(|&at| grouped_blocks[at].ranks.len() < most);
        let at = fits.unwrap_or_else(|| {
            grouped_blocks.push(BlockGroup {
                child,
                ranks: Vec::new(),
            });
            grouped_blocks.len() - 1
        });
        grouped_blocks[at].ranks.push(to);
        open[child] = Some(at);
    }
    grouped_blocks
}

/// Returns for each rank the child of `rank` whose sub-tree contains it.
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
    use crate::plan::tests::all_of;
    use crate::plan::{Costs, Via, check, make};
    use crate::topology::Topology;

    #[test]
    fn every_rank_receives_from_the_root() {
        let plan = by_rank(Via::Cast, 2, 5).expect("rank 2 of 5");
        assert_eq!(
            (plan.via(), plan.root(), plan.height(), plan.degree()),
            (Via::Cast, 2, 1, 4)
        );
        assert_eq!(plan.children(2), [0, 1, 3, 4]);
        assert_eq!(plan.parent(4), Some(2));
    }

    #[test]
    fn a_lone_root_sends_to_nobody() {
        let plan = by_rank(Via::Cast, 0, 1).expect("rank 0 of 1");
        assert_eq!(
            (plan.height(), plan.degree(), plan.edges().count()),
            (0, 0, 0)
        );
    }

    #[test]
    fn the_root_serves_the_ranks_after_it_first() {
        let plan = by_rank(Via::Flat, 2, 5).expect("rank 2 of 5");
        assert_eq!(
            (plan.children(2), plan.height(), plan.degree()),
            ([3, 4, 0, 1].as_slice(), 1, 4)
        );
        assert_eq!(
            by_rank(Via::Flat, 0, 1)
                .expect("rank 0 of 1")
                .edges()
                .count(),
            0
        );
    }

    #[test]
    fn the_chain_goes_round() {
        let plan = by_rank(Via::ChainUnaware, 3, 5).expect("rank 3 of 5");
        let edges = [(0, 1), (1, 2), (3, 4), (4, 0)];
        assert_eq!(
            (plan.edges().collect::<Vec<_>>(), plan.height(), plan.via()),
            (edges.to_vec(), 4, Via::ChainUnaware)
        );
    }

    #[test]
    fn the_binary_tree_is_complete() {
        let plan = by_rank(Via::BinaryUnaware, 1, 6).expect("rank 1 of 6");
        assert_eq!(
            plan.edges().collect::<Vec<_>>(),
            [(1, 2), (1, 3), (2, 4), (2, 5), (3, 0)]
        );
        for (ranks, height) in [
            (1, 0),
            (2, 1),
            (3, 1),
            (4, 2),
            (7, 2),
            (8, 3),
            (1_023, 9),
            (1_024, 10),
        ] {
            assert_eq!(
                by_rank(Via::BinaryUnaware, 0, ranks)
                    .expect("rank 0")
                    .height(),
                height,
                "{ranks}"
            );
        }
    }

    #[test]
    fn a_root_out_of_range_is_refused() {
        for via in [
            Via::Cast,
            Via::Flat,
            Via::ChainUnaware,
            Via::BinaryUnaware,
            Via::Binomial,
        ] {
            for (root, ranks) in [(0, 0), (1, 1), (4, 4)] {
                assert_eq!(
                    by_rank(via, root, ranks),
                    Err(PlanError::NoSuchRoot { root, ranks }),
                    "{via}"
                );
            }
        }
    }

    /// Figure 15: on topology (2) the unaware chain happens to be free of contention, on topology
    /// (5) it is not. The unaware binary tree is free of it on topology (1) only.
    #[test]
    fn unaware_plans_contend_as_in_figure_15() {
        let free = |name: &str, via: Via| {
            let bed = Topology::builtin(name).expect(name);
            let all = all_of(&bed);
            check(&bed, &by_rank(via, 0, all.len()).expect("rank 0"), &all).is_good()
        };
        let beds = ["fig9-1", "fig9-2", "fig9-3", "fig9-4", "fig9-5"];
        assert_eq!(
            beds.map(|name| free(name, Via::ChainUnaware)),
            [true, true, true, true, false]
        );
        assert_eq!(
            beds.map(|name| free(name, Via::BinaryUnaware)),
            [true, false, false, false, false]
        );
    }

    #[test]
    fn eight_ranks_make_the_tree_of_figure_2() {
        let plan = by_rank(Via::Binomial, 0, 8).expect("rank 0 of 8");
        assert_eq!(
            plan.edges().collect::<Vec<_>>(),
            [(0, 4), (0, 2), (0, 1), (2, 3), (4, 6), (4, 5), (6, 7)]
        );
        assert_eq!((plan.height(), plan.degree()), (3, 3));
    }

    #[test]
    fn every_rank_receives_from_the_one_without_its_lowest_bit() {
        for ranks in 1..70 {
            let root = ranks / 3;
            let plan = by_rank(Via::Binomial, root, ranks).expect("a rank");
            for rank in 0..ranks {
                let counted = (rank + ranks - root) % ranks;
                assert_eq!(
                    plan.parent(rank),
                    binomial_parent(counted).map(|parent| (parent + root) % ranks)
                );
            }
        }
    }

    #[test]
    fn the_scatters_are_the_same_tree_by_another_name() {
        let edges =
            |plan: Result<Plan, PlanError>| plan.expect("rank 5 of 11").edges().collect::<Vec<_>>();
        assert_eq!(
            edges(by_rank(Via::ScatterAllgather, 5, 11)),
            edges(by_rank(Via::Binomial, 5, 11))
        );
        assert_eq!(
            edges(by_rank(Via::RecursiveDoubling, 5, 11)),
            edges(by_rank(Via::Binomial, 5, 11))
        );
        assert_eq!(
            by_rank(Via::ScatterAllgather, 5, 11).map(|plan| plan.via()),
            Ok(Via::ScatterAllgather)
        );
    }

    const BOTH: [Via; 2] = [Via::ScatterAllgather, Via::RecursiveDoubling];

    fn route(plan: &Plan) -> Vec<usize> {
        std::iter::successors(Some(plan.root()), |&rank| {
            plan.children(rank).first().copied()
        })
        .collect()
    }

    #[test]
    fn a_block_goes_down_and_then_round_past_those_who_have_it() {
        let plan = block(Via::ScatterAllgather, 0, 8, 6);
        assert_eq!(route(&plan), [0, 4, 6, 7, 1, 2, 3, 5]);
        assert_eq!((plan.degree(), plan.via()), (1, Via::ScatterAllgather));
        // From root 3 of 5, block 1 is for rank 4, and rank 3 + 4 - 5 = 2 is the last.
        assert_eq!(
            route(&block(Via::ScatterAllgather, 3, 5, 1)),
            [3, 4, 0, 1, 2]
        );
    }

    #[test]
    fn a_block_doubles() {
        let plan = block(Via::RecursiveDoubling, 0, 8, 5);
        // Down: 0, 4, 5. Step 0: 5 has it and 4 had it. Step 1: 5 → 7, 4 → 6. Step 2: 5 → 1, 4 →
        // (0), 7 → 3, 6 → 2.
        assert_eq!(
            plan.edges().collect::<Vec<_>>(),
            [(0, 4), (4, 5), (4, 6), (5, 7), (5, 1), (6, 2), (7, 3)]
        );
    }

    #[test]
    fn without_a_power_of_two_there_is_no_doubling() {
        assert_eq!(
            block_parents(Via::RecursiveDoubling, 12, 7),
            block_parents(Via::ScatterAllgather, 12, 7)
        );
        assert_ne!(
            block_parents(Via::RecursiveDoubling, 16, 7),
            block_parents(Via::ScatterAllgather, 16, 7)
        );
    }

    #[test]
    fn every_block_is_a_tree_with_the_scatters_path_in_it() {
        for (via, ranks) in BOTH
            .into_iter()
            .flat_map(|via| (1..=33).map(move |ranks| (via, ranks)))
        {
            let root = ranks / 2;
            let plans = blocks(via, root, ranks);
            assert_eq!(plans.len(), ranks);
            for (number, plan) in plans.iter().enumerate() {
                assert_eq!((plan.root(), plan.edges().count()), (root, ranks - 1));
                let mut rank = number;
                while let Some(above) = binomial_parent(rank) {
                    assert_eq!(
                        plan.parent((rank + root) % ranks),
                        Some((above + root) % ranks)
                    );
                    rank = above;
                }
                let (log, is_chain) = (ranks.ilog2() as usize, plan.degree() <= 1);
                assert!(
                    is_chain || (ranks.is_power_of_two() && plan.height() <= 2 * log),
                    "{via} {ranks} {number}"
                );
            }
        }
    }

    #[test]
    #[should_panic(expected = "chain does not travel in blocks")]
    fn only_ways_in_blocks_have_blocks() {
        block_parents(Via::Chain, 4, 0);
    }

    #[test]
    fn a_rank_finds_its_own_place_in_every_block_without_the_others_plans() {
        for (via, ranks) in (1..=17).flat_map(|ranks| {
            [
                (Via::ScatterAllgather, ranks),
                (Via::RecursiveDoubling, ranks),
            ]
        }) {
            for number in 0..ranks {
                let plan = block(via, 0, ranks, number);
                for rank in 0..ranks {
                    let place = (
                        block_parent(via, ranks, number, rank),
                        block_children(via, ranks, number, rank),
                    );
                    let planned = (plan.parent(rank), plan.children(rank).to_vec());
                    assert_eq!(
                        place, planned,
                        "{via}, {ranks} ranks, block {number}, rank {rank}"
                    );
                }
            }
        }
    }

    fn block_group(child: usize, ranks: &[usize]) -> BlockGroup {
        BlockGroup {
            child,
            ranks: ranks.to_vec(),
        }
    }

    #[test]
    fn a_rank_sends_each_child_its_block_and_those_of_all_behind_it_the_farthest_first() {
        let children = [vec![1, 2], vec![3, 4], vec![5], vec![], vec![], vec![]];
        let plan = Plan::from_children(Via::Binary, 0, &children).expect("a plan");
        let topology =
            Topology::single_switch((0..6).map(|host| format!("n{host}"))).expect("hosts");
        let order = farthest_first(&plan, &topology, &[0, 1, 2, 3, 4, 5]);
        assert_eq!(order, [3, 4, 5, 1, 2]);
        let both = [
            block_group(1, &[3, 4]),
            block_group(2, &[5, 2]),
            block_group(1, &[1]),
        ];
        assert_eq!(grouped_blocks(&plan, &order, 0, 2), both);
        assert_eq!(
            grouped_blocks(&plan, &order, 0, 9),
            [block_group(1, &[3, 4, 1]), block_group(2, &[5, 2])]
        );
        assert_eq!(
            grouped_blocks(&plan, &order, 1, 1),
            [block_group(3, &[3]), block_group(4, &[4])]
        );
        assert_eq!(grouped_blocks(&plan, &order, 5, 1), []);
    }

    #[test]
    fn every_block_passes_every_edge_on_its_way_once_and_no_other() {
        let topology = Topology::builtin("fig9-5").expect("a test bed");
        let hosts = all_of(&topology);
        for via in [Via::Flat, Via::Chain, Via::Binary, Via::Kary(4)] {
            let plan = make(via, &topology, 7, &hosts, &Costs::default()).expect("a plan");
            let order = farthest_first(&plan, &topology, &hosts);
            let depths = depths(&plan);
            for most in [1, 5, 100] {
                let mut hops = vec![0; plan.ranks()];
                for rank in 0..plan.ranks() {
                    for BlockGroup { ranks, .. } in grouped_blocks(&plan, &order, rank, most) {
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
        let hosts = all_of(&topology);
        let plan = make(Via::Flat, &topology, 0, &hosts, &Costs::default()).expect("a plan");
        let hops = topology.hops_from(topology.switch_of(0));
        let order = farthest_first(&plan, &topology, &hosts);
        assert!(
            order
                .windows(2)
                .all(|pair| hops[topology.switch_of(pair[0])] >= hops[topology.switch_of(pair[1])])
        );
    }
}
