//! Tests of a broadcast tree's hops, sends and shared cables, counted by hand and by a second
//! method.

use super::*;
use crate::plan::{CableLoad, by_rank, chain, check};
use crate::topology::arbitrary;
use proptest::prelude::*;

fn bed(name: &str) -> Topology {
    Topology::builtin(name).expect(name)
}

fn shape(via: Via, bed_name: &str, children: &[Vec<usize>]) -> Shape {
    let plan = Plan::from_children(via, 0, children).expect("a plan");
    Shape::of(&plan, &bed(bed_name), &Vec::from_iter(0..children.len()))
}

/// Returns MPICH's binomial tree: rank 0 sends to P/2, P/4, …, 1.
fn binomial(ranks: usize) -> Vec<Vec<usize>> {
    let children = |rank: usize| {
        let reach = if rank == 0 { ranks.next_power_of_two() } else { 1 << rank.trailing_zeros() };
        let halves = std::iter::successors(Some(reach / 2), |half| Some(half / 2)).take_while(|&half| half > 0);
        halves.map(|half| rank + half).filter(|&child| child < ranks).collect()
    };
    (0..ranks).map(children).collect()
}

#[test]
fn figure_8_has_two_hops_and_four_sends() {
    // Patarasuk 2008, Figure 8: the last is processor 4, A = 2 and B = 4.
    let figure = shape(Via::Binary, "fig9-1", &[vec![1, 2], vec![], vec![3, 4], vec![], vec![]]);
    assert_eq!((figure.height, figure.degree, figure.worst_flows), (2, 2, 2));
    assert_eq!(figure.paths, [(2, 4)]);
}

#[test]
fn only_receivers_that_may_be_the_last_are_kept() {
    // 1 hop and 3 sends against 2 hops and 2 sends: L and g decide which is later. 1 hop and 2
    // sends is never the latest.
    let tree = shape(Via::Kary(3), "fig9-1", &[vec![1, 2, 3], vec![4], vec![], vec![], vec![]]);
    assert_eq!(tree.paths, [(1, 3), (2, 2)]);
}

#[test]
fn a_chain_is_its_length() {
    for name in ["fig9-1", "fig9-2", "fig9-3", "fig9-4", "fig9-5"] {
        let topology = bed(name);
        let members: Vec<usize> = (0..topology.hosts().len()).collect();
        let linear = Shape::of(&chain(&topology, 0, &members).expect("a chain"), &topology, &members);
        let hops = members.len() - 1;
        assert_eq!((linear.paths, linear.worst_flows, linear.degree), (vec![(hops, hops)], 1, 1), "{name}");
    }
}

#[test]
fn a_chain_by_rank_over_hosts_dealt_round_robin_waits_for_eight() {
    let children: Vec<Vec<usize>> = (0..32).map(|rank| Vec::from_iter((rank < 31).then_some(rank + 1))).collect();
    let unaware = shape(Via::ChainUnaware, "fig9-5", &children);
    // The first segment's sends happen one after the other, so it has all cables for itself.
    assert_eq!((unaware.worst_flows, unaware.paths), (8, vec![(31, 31)]));
}

#[test]
fn sends_of_one_step_share_the_cable_between_their_switches() {
    // 16 ranks on each side of one cable. If they cross it in the last step, all sixteen need it at
    // once.
    let aligned = shape(Via::Binomial, "fig9-2", &binomial(32));
    assert_eq!((aligned.worst_flows, aligned.paths), (5, vec![(5, 5)]));
    let topology = bed("fig9-2");
    let interleaved: Vec<usize> = (0..32).map(|rank| rank / 2 + rank % 2 * 16).collect();
    let plan = Plan::from_children(Via::Binomial, 0, &binomial(32)).expect("a plan");
    let crossed = Shape::of(&plan, &topology, &interleaved);
    assert_eq!(crossed.worst_flows, 16);
    // Receivers of the last step wait for 16 sends; no earlier step crosses.
    assert_eq!(crossed.paths, [(5, 4 + 16)]);
}

#[test]
fn a_cast_is_on_every_cable_once() {
    let topology = bed("fig9-5");
    let everybody: Vec<usize> = (0..32).collect();
    let shape = Shape::of(&by_rank(Via::Cast, 3, 32).expect("a cast"), &topology, &everybody);
    assert_eq!((shape.worst_flows, shape.height, shape.degree), (1, 1, 31));
    let alone = Shape::of(&by_rank(Via::Cast, 0, 1).expect("a cast"), &topology, &[3]);
    assert_eq!((alone.worst_flows, alone.paths, alone.ranks), (0, vec![], 1));
}

#[test]
fn blocks_are_scattered_by_halves_and_gathered_round_a_ring() {
    let ring = shape(Via::ScatterAllgather, "fig9-1", &binomial(16));
    let rounds: Vec<_> = ring.rounds.iter().map(|round| (round.blocks, round.flows, round.times)).collect();
    assert_eq!(rounds, [(8, 1, 1), (4, 1, 1), (2, 1, 1), (1, 1, 1), (1, 1, 15)]);
    // Six ranks: 4 sends to 5 only, and 0 to 4, 2 and 1.
    let six = shape(Via::ScatterAllgather, "fig9-1", &binomial(6));
    let blocks: Vec<_> = six.rounds.iter().map(|round| (round.blocks, round.times)).collect();
    assert_eq!(blocks, [(2, 1), (2, 1), (1, 1), (1, 5)]);
    let round_robin = shape(Via::ScatterAllgather, "fig9-5", &binomial(32));
    assert_eq!(round_robin.rounds.last(), Some(&BlockRound { blocks: 1, flows: 8, times: 31, is_exchange: true }));
}

#[test]
fn doubling_crosses_the_middle_with_everything_at_once() {
    let doubling = shape(Via::RecursiveDoubling, "fig9-2", &binomial(32));
    let rounds: Vec<_> = doubling.rounds[5..].iter().map(|round| (round.blocks, round.flows, round.times)).collect();
    assert_eq!(rounds, [(1, 1, 1), (2, 1, 1), (4, 1, 1), (8, 1, 1), (16, 16, 1)]);
    assert_eq!(doubling.worst_flows, 16);
}

proptest! {
    #[test]
    fn flows_are_those_the_judge_counts_and_aware_chains_never_wait(
        (topology, hosts) in arbitrary::topology(10, 30).prop_flat_map(|topology| {
            let hosts: Vec<usize> = (0..topology.hosts().len()).collect();
            (Just(topology), Just(hosts).prop_shuffle())
        })
    ) {
        // In a chain every flow has its own sender, so the checker's worst cable has the most
        // flows.
        let flows = |plan: &Plan| check(&topology, plan, &hosts).worst.map_or(0, |CableLoad { flows, .. }| flows);
        let by_rank: Vec<Option<usize>> = (0..hosts.len()).map(|rank| rank.checked_sub(1)).collect();
        let unaware = Plan::from_parents(Via::ChainUnaware, 0, &by_rank).expect("a chain");
        prop_assert_eq!(Shape::of(&unaware, &topology, &hosts).worst_flows, flows(&unaware));
        let aware = Shape::of(&chain(&topology, hosts[0], &hosts).expect("a chain"), &topology, &hosts);
        prop_assert_eq!(aware.worst_flows, 1.min(hosts.len() - 1));
        prop_assert_eq!(aware.paths.first().copied().unwrap_or((0, 0)), (hosts.len() - 1, hosts.len() - 1));
    }

    #[test]
    fn only_undominated_pairs_are_kept(pairs in prop::collection::vec((0usize..8, 0usize..8), 0..20)) {
        let kept = undominated(pairs.clone());
        let beats =
            |left: &(usize, usize), right: &(usize, usize)| left != right && left.0 >= right.0 && left.1 >= right.1;
        let unbeaten = |pair: &(usize, usize)| !pairs.iter().any(|other| beats(other, pair));
        let mut expected: Vec<_> = pairs.iter().copied().filter(unbeaten).collect();
        expected.sort_unstable();
        expected.dedup();
        prop_assert_eq!(kept, expected);
    }
}

#[test]
fn a_path_goes_up_and_down_again() {
    // Switches s1, s2 and s3 around s0.
    let cables = Cables::new(&Topology::builtin("fig9-3").expect("fig9-3"));
    let (up, down) = (|switch| Direction { switch, up: true }, |switch| Direction { switch, up: false });
    assert_eq!(cables.between(2, 2), []);
    assert_eq!(cables.between(0, 3), [down(3)]);
    assert_eq!(cables.between(1, 2), [up(1), down(2)]);
}

#[test]
fn a_row_is_walked_cable_by_cable() {
    let cables = Cables::new(&Topology::builtin("fig9-4").expect("fig9-4"));
    let there = cables.between(0, 3);
    let back = cables.between(3, 0);
    assert_eq!((there.len(), back.len()), (3, 3));
    assert!(there.iter().all(|direction| !back.contains(direction)), "two directions of a cable are two");
}

#[test]
fn the_most_alike_are_counted() {
    assert_eq!(most_alike(vec![3, 1, 3, 2, 3, 1]), 3);
    assert_eq!(most_alike(Vec::<usize>::new()), 0);
}
