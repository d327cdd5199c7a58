//! Tests of broadcasts over two binary trees, against an enumeration of all pairs of trees.

use super::*;
use crate::plan::check;
use crate::plan::tests::{all_of, network};
use crate::topology::arbitrary;
use proptest::prelude::*;

fn star(hosts: usize) -> Topology {
    Topology::single_switch((0..hosts).map(|host| format!("n{host}"))).expect("hosts")
}

/// A row of three switches with these numbers of hosts.
fn row(hosts: [usize; 3]) -> Topology {
    network(&hosts, |id| id - 1)
}

/// Returns the number of hosts other than the root that send in both trees; fails if a pair is unsound.
#[track_caller]
fn judged(topology: &Topology, root: usize, members: &[usize]) -> (Plan, usize) {
    let plan = two_tree(topology, root, members).expect("members are hosts");
    let report = check(topology, &plan, members);
    assert!(report.is_good(), "{report}\n{}", topology.to_toml());
    assert!(report.loads.iter().all(|load| load.flows <= 1), "{report}");
    let [first, second] = plan.trees()[..] else { panic!("two trees") };
    let sends = |rank: usize| (first.children(rank).len(), second.children(rank).len());
    assert!((0..members.len()).all(|rank| sends(rank).0 + sends(rank).1 <= 2));
    let in_both = |&rank: &usize| rank != plan.root() && sends(rank).0 > 0 && sends(rank).1 > 0;
    let in_both = (0..members.len()).filter(in_both).count();
    (plan, in_both)
}

#[test]
fn on_one_switch_every_host_sends_in_one_tree_and_both_are_as_low_as_binary_trees_can_be() {
    for hosts in 1..70 {
        let (topology, root) = (star(hosts), hosts / 3);
        let (plan, in_both) = judged(&topology, root, &all_of(&topology));
        let below_root = (hosts - 1).checked_ilog2().map_or(0, |levels| levels as usize + 1);
        assert!(in_both == 0 && plan.height() <= below_root + 1, "{hosts} hosts: height {}", plan.height());
        assert_eq!((plan.root(), plan.ranks(), plan.via()), (root, hosts, Via::TwoTree));
    }
}

#[test]
fn on_the_test_beds_of_the_papers_both_trees_are_low_from_every_root() {
    let beds = [("fig9-1", 5), ("fig9-2", 7), ("fig9-3", 8), ("fig9-4", 8), ("fig9-5", 8)];
    for (name, most) in beds {
        let topology = Topology::builtin(name).expect("a test bed");
        let judged = (0..topology.hosts().len()).map(|root| judged(&topology, root, &all_of(&topology)));
        let heights: Vec<(usize, usize)> = judged.map(|(plan, in_both)| (plan.height(), in_both)).collect();
        let highest = heights.iter().max().copied().unwrap_or_default();
        println!("{name}: height up to {}, hosts in both trees up to {}", highest.0, highest.1);
        assert!(highest.0 <= most, "{name}: {heights:?}");
    }
}

#[test]
fn the_least_networks_have_a_pair() {
    let (one, _) = judged(&star(1), 0, &[0]);
    assert_eq!((one.height(), one.edges().count()), (0, 0));
    let (two, in_both) = judged(&row([1, 1, 0]), 0, &[0, 1]);
    assert_eq!((two.height(), two.trees().len(), in_both), (1, 2, 0));
    let (three, in_both) = judged(&row([1, 1, 1]), 0, &[0, 1, 2]);
    assert_eq!((three.height(), in_both), (2, 0));
    let members = [5, 0, 7];
    let (some, _) = judged(&row([4, 2, 4]), 7, &members);
    assert_eq!((some.root(), some.ranks()), (2, 3));
}

#[test]
fn heights_grow_with_the_logarithm_of_hosts_and_of_racks() {
    let racks = |racks: usize, hosts: usize| {
        let core = [0].into_iter().chain([hosts].repeat(racks)).collect::<Vec<_>>();
        network(&core, |_| 0)
    };
    for (count, hosts, most) in [(4, 16, 10), (16, 16, 14), (64, 16, 18), (64, 40, 20)] {
        let topology = racks(count, hosts);
        let (plan, in_both) = judged(&topology, 0, &all_of(&topology));
        println!("{count} racks of {hosts}: height {}, {in_both} hosts in both trees", plan.height());
        assert!(plan.height() <= most, "{count} racks of {hosts}: height {}", plan.height());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A run of 10 000 networks and roots by hand found no cable above one copy either.
    #[test]
    fn no_cable_carries_more_than_a_copy_on_any_network(
        topology in arbitrary::topology(12, 48), root in any::<prop::sample::Index>(),
    ) {
        let all = all_of(&topology);
        let root_host = root.index(all.len());
        let (plan, _) = judged(&topology, root_host, &all);
        prop_assert_eq!(&plan, &two_tree(&topology, root_host, &all).expect("all hosts"), "the same every time");
    }
}

/// Loads of one tree, four bits each: the directed cables of a row, then the sends of each host.
struct Candidate {
    loads: u64,
    height: usize,
}

fn trees_within_a_copy(topology: &Topology, root: usize) -> Vec<Candidate> {
    let ranks = topology.hosts().len();
    let mut parents = vec![0; ranks];
    let mut found = Vec::new();
    loop {
        let is_valid = (0..ranks).all(|rank| rank == root || parents[rank] != rank);
        if is_valid && let Some(candidate) = candidate(topology, root, &parents) {
            found.push(candidate);
        }
        // Counts through all lists of parents.
        let Some(next) = (0..ranks).find(|&rank| rank != root && parents[rank] + 1 < ranks) else { return found };
        parents[next] += 1;
        (0..next).filter(|&rank| rank != root).for_each(|rank| parents[rank] = 0);
    }
}

fn candidate(topology: &Topology, root: usize, parents: &[usize]) -> Option<Candidate> {
    let mut counts = [0u64; 16];
    let mut height = 0;
    for rank in (0..parents.len()).filter(|&rank| rank != root) {
        let line = std::iter::successors(Some(rank), |&at| (at != root).then(|| parents[at]));
        let depth = line.take(parents.len() + 1).count() - 1;
        if depth >= parents.len() {
            return None;
        }
        height = height.max(depth);
        let (from, to) = (topology.switch_of(parents[rank]), topology.switch_of(rank));
        (from..to).for_each(|cable| counts[2 * cable] += 1);
        (to..from).for_each(|cable| counts[2 * cable + 1] += 1);
        counts[4 + parents[rank]] += 1;
    }
    let loads = counts.iter().rev().try_fold(0, |loads, &count| (count <= 2).then_some(loads << 4 | count))?;
    Some(Candidate { loads, height })
}

/// Returns the least height of any pair, and the fewest hosts beside the root that send in both trees of any pair.
fn best_of_all_pairs(trees: &[Candidate], root: usize) -> (usize, usize) {
    const FIVES: u64 = 0x5555_5555_5555_5555;
    const EIGHTS: u64 = 0x8888_8888_8888_8888;
    let sending = |loads: u64| ((loads | loads >> 1) & 0x1111_1111_1111_1111) >> 16 & !(1 << (4 * root));
    let mut best = (usize::MAX, usize::MAX);
    for (at, first) in trees.iter().enumerate() {
        for second in &trees[at..] {
            if (first.loads + second.loads + FIVES) & EIGHTS == 0 {
                let in_both = (sending(first.loads) & sending(second.loads)).count_ones() as usize;
                best = (best.0.min(first.height.max(second.height)), best.1.min(in_both));
            }
        }
    }
    best
}

/// Compares with the best of all pairs on every row of up to three switches with up to `most` hosts, from one root on
/// each switch.
fn compare_with_all_pairs(most: usize) -> String {
    let (mut networks, mut higher, mut far, mut impure, mut avoidable) = (0, 0, 0, 0, 0);
    for hosts in 2..=most {
        for (first, second) in (0..=hosts).flat_map(|first| (0..=hosts - first).map(move |second| (first, second))) {
            let counts = [first, second, hosts - first - second];
            let topology = row(counts);
            let roots = (0..3).filter(|&switch| counts[switch] > 0).map(|switch| counts[..switch].iter().sum());
            for root in roots {
                let (plan, in_both) = judged(&topology, root, &all_of(&topology));
                let (height, least) = best_of_all_pairs(&trees_within_a_copy(&topology, root), root);
                assert!(height <= plan.height() && least <= in_both, "{counts:?} from {root}");
                networks += 1;
                higher += usize::from(plan.height() > height);
                far = far.max(plan.height() - height);
                impure += usize::from(least > 0);
                avoidable += usize::from(in_both > least);
            }
        }
    }
    format!(
        "{networks} networks of up to {most} hosts: {higher} higher than the best pair, by up to {far}; on {impure} \
         every pair has hosts that send in both trees, and {avoidable} pairs have more of them than the best"
    )
}

#[test]
fn among_all_pairs_on_small_networks_few_are_better() {
    let expected = "249 networks of up to 7 hosts: 64 higher than the best pair, by up to 1; on 0 every pair has hosts \
                    that send in both trees, and 45 pairs have more of them than the best";
    assert_eq!(compare_with_all_pairs(7), expected);
}
