//! Tests of broadcast trees made from rank numbers, and of block-wise broadcasts.

use super::*;
use crate::plan::tests::all_of;
use crate::plan::{Costs, Via, check, make};
use crate::topology::Topology;

#[test]
fn every_rank_receives_from_the_root() {
    let plan = by_rank(Via::Cast, 2, 5).expect("rank 2 of 5");
    assert_eq!((plan.via(), plan.root(), plan.height(), plan.degree()), (Via::Cast, 2, 1, 4));
    assert_eq!(plan.children(2), [0, 1, 3, 4]);
    assert_eq!(plan.parent(4), Some(2));
}

#[test]
fn a_lone_root_sends_to_nobody() {
    let plan = by_rank(Via::Cast, 0, 1).expect("rank 0 of 1");
    assert_eq!((plan.height(), plan.degree(), plan.edges().count()), (0, 0, 0));
}

#[test]
fn the_root_serves_the_ranks_after_it_first() {
    let plan = by_rank(Via::Flat, 2, 5).expect("rank 2 of 5");
    assert_eq!((plan.children(2), plan.height(), plan.degree()), ([3, 4, 0, 1].as_slice(), 1, 4));
    assert_eq!(by_rank(Via::Flat, 0, 1).expect("rank 0 of 1").edges().count(), 0);
}

#[test]
fn the_chain_goes_round() {
    let plan = by_rank(Via::ChainUnaware, 3, 5).expect("rank 3 of 5");
    let edges = [(0, 1), (1, 2), (3, 4), (4, 0)];
    assert_eq!((plan.edges().collect::<Vec<_>>(), plan.height(), plan.via()), (edges.to_vec(), 4, Via::ChainUnaware));
}

#[test]
fn the_binary_tree_is_complete() {
    let plan = by_rank(Via::BinaryUnaware, 1, 6).expect("rank 1 of 6");
    assert_eq!(plan.edges().collect::<Vec<_>>(), [(1, 2), (1, 3), (2, 4), (2, 5), (3, 0)]);
    for (ranks, height) in [(1, 0), (2, 1), (3, 1), (4, 2), (7, 2), (8, 3), (1_023, 9), (1_024, 10)] {
        assert_eq!(by_rank(Via::BinaryUnaware, 0, ranks).expect("rank 0").height(), height, "{ranks}");
    }
}

#[test]
fn a_root_out_of_range_is_refused() {
    for via in [Via::Cast, Via::Flat, Via::ChainUnaware, Via::BinaryUnaware, Via::Binomial] {
        for (root, ranks) in [(0, 0), (1, 1), (4, 4)] {
            assert_eq!(by_rank(via, root, ranks), Err(PlanError::NoSuchRoot { root, ranks }), "{via}");
        }
    }
}

/// Figure 15: on topology (2) the unaware chain happens to be free of contention, on topology (5)
/// it is not. The unaware binary tree is free of it on topology (1) only.
#[test]
fn unaware_plans_contend_as_in_figure_15() {
    let free = |name: &str, via: Via| {
        let bed = Topology::builtin(name).expect(name);
        let all = all_of(&bed);
        check(&bed, &by_rank(via, 0, all.len()).expect("rank 0"), &all).is_good()
    };
    let beds = ["fig9-1", "fig9-2", "fig9-3", "fig9-4", "fig9-5"];
    assert_eq!(beds.map(|name| free(name, Via::ChainUnaware)), [true, true, true, true, false]);
    assert_eq!(beds.map(|name| free(name, Via::BinaryUnaware)), [true, false, false, false, false]);
}

#[test]
fn eight_ranks_make_the_tree_of_figure_2() {
    let plan = by_rank(Via::Binomial, 0, 8).expect("rank 0 of 8");
    assert_eq!(plan.edges().collect::<Vec<_>>(), [(0, 4), (0, 2), (0, 1), (2, 3), (4, 6), (4, 5), (6, 7)]);
    assert_eq!((plan.height(), plan.degree()), (3, 3));
}

#[test]
fn every_rank_receives_from_the_one_without_its_lowest_bit() {
    for ranks in 1..70 {
        let root = ranks / 3;
        let plan = by_rank(Via::Binomial, root, ranks).expect("a rank");
        for rank in 0..ranks {
            let counted = (rank + ranks - root) % ranks;
            assert_eq!(plan.parent(rank), binomial_parent(counted).map(|parent| (parent + root) % ranks));
        }
    }
}

#[test]
fn the_scatters_are_the_same_tree_by_another_name() {
    let edges = |plan: Result<Plan, PlanError>| plan.expect("rank 5 of 11").edges().collect::<Vec<_>>();
    assert_eq!(edges(by_rank(Via::ScatterAllgather, 5, 11)), edges(by_rank(Via::Binomial, 5, 11)));
    assert_eq!(edges(by_rank(Via::RecursiveDoubling, 5, 11)), edges(by_rank(Via::Binomial, 5, 11)));
    assert_eq!(by_rank(Via::ScatterAllgather, 5, 11).map(|plan| plan.via()), Ok(Via::ScatterAllgather));
}

const BOTH: [Via; 2] = [Via::ScatterAllgather, Via::RecursiveDoubling];

fn route(plan: &Plan) -> Vec<usize> {
    std::iter::successors(Some(plan.root()), |&rank| plan.children(rank).first().copied()).collect()
}

#[test]
fn a_block_goes_down_and_then_round_past_those_who_have_it() {
    let plan = block(Via::ScatterAllgather, 0, 8, 6);
    assert_eq!(route(&plan), [0, 4, 6, 7, 1, 2, 3, 5]);
    assert_eq!((plan.degree(), plan.via()), (1, Via::ScatterAllgather));
    // From root 3 of 5, block 1 is for rank 4, and rank 3 + 4 - 5 = 2 is the last.
    assert_eq!(route(&block(Via::ScatterAllgather, 3, 5, 1)), [3, 4, 0, 1, 2]);
}

#[test]
fn a_block_doubles() {
    let plan = block(Via::RecursiveDoubling, 0, 8, 5);
    // Down: 0, 4, 5. Step 0: 5 has it and 4 had it. Step 1: 5 → 7, 4 → 6. Step 2: 5 → 1, 4 → (0), 7 → 3, 6 → 2.
    assert_eq!(plan.edges().collect::<Vec<_>>(), [(0, 4), (4, 5), (4, 6), (5, 7), (5, 1), (6, 2), (7, 3)]);
}

#[test]
fn without_a_power_of_two_there_is_no_doubling() {
    assert_eq!(block_parents(Via::RecursiveDoubling, 12, 7), block_parents(Via::ScatterAllgather, 12, 7));
    assert_ne!(block_parents(Via::RecursiveDoubling, 16, 7), block_parents(Via::ScatterAllgather, 16, 7));
}

#[test]
fn every_block_is_a_tree_with_the_scatters_path_in_it() {
    for (via, ranks) in BOTH.into_iter().flat_map(|via| (1..=33).map(move |ranks| (via, ranks))) {
        let root = ranks / 2;
        let plans = blocks(via, root, ranks);
        assert_eq!(plans.len(), ranks);
        for (number, plan) in plans.iter().enumerate() {
            assert_eq!((plan.root(), plan.edges().count()), (root, ranks - 1));
            let mut rank = number;
            while let Some(above) = binomial_parent(rank) {
                assert_eq!(plan.parent((rank + root) % ranks), Some((above + root) % ranks));
                rank = above;
            }
            let (log, is_chain) = (ranks.ilog2() as usize, plan.degree() <= 1);
            assert!(is_chain || (ranks.is_power_of_two() && plan.height() <= 2 * log), "{via} {ranks} {number}");
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
    for (via, ranks) in (1..=17).flat_map(|ranks| [(Via::ScatterAllgather, ranks), (Via::RecursiveDoubling, ranks)]) {
        for number in 0..ranks {
            let plan = block(via, 0, ranks, number);
            for rank in 0..ranks {
                let place = (block_parent(via, ranks, number, rank), block_children(via, ranks, number, rank));
                let planned = (plan.parent(rank), plan.children(rank).to_vec());
                assert_eq!(place, planned, "{via}, {ranks} ranks, block {number}, rank {rank}");
            }
        }
    }
}

fn block_group(child: usize, ranks: &[usize]) -> BlockGroup {
    BlockGroup { child, ranks: ranks.to_vec() }
}

#[test]
fn a_rank_sends_each_child_its_block_and_those_of_all_behind_it_the_farthest_first() {
    let children = [vec![1, 2], vec![3, 4], vec![5], vec![], vec![], vec![]];
    let plan = Plan::from_children(Via::Binary, 0, &children).expect("a plan");
    let topology = Topology::single_switch((0..6).map(|host| format!("n{host}"))).expect("hosts");
    let order = farthest_first(&plan, &topology, &[0, 1, 2, 3, 4, 5]);
    assert_eq!(order, [3, 4, 5, 1, 2]);
    let both = [block_group(1, &[3, 4]), block_group(2, &[5, 2]), block_group(1, &[1])];
    assert_eq!(grouped_blocks(&plan, &order, 0, 2), both);
    assert_eq!(grouped_blocks(&plan, &order, 0, 9), [block_group(1, &[3, 4, 1]), block_group(2, &[5, 2])]);
    assert_eq!(grouped_blocks(&plan, &order, 1, 1), [block_group(3, &[3]), block_group(4, &[4])]);
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
    assert!(order.windows(2).all(|pair| hops[topology.switch_of(pair[0])] >= hops[topology.switch_of(pair[1])]));
}
