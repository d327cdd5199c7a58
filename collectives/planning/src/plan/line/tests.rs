//! Tests of the depth-first order of hosts over the switches.

use super::*;
use crate::plan::tests::{all_of, assert_about_ten_times, network};
use crate::plan::{check, layers};
use crate::topology::{BUILTIN_NAMES, arbitrary};
use proptest::prelude::*;

#[test]
fn forks_on_a_row_of_switches() {
    let bed = Topology::builtin("fig9-4").expect("fig9-4");
    let members = [9, 8, 16, 17, 0, 24];
    let line = Line::new(&bed, 8, &members).expect("members are hosts");
    // From s1: n8, n9; then s0 with n0; then s2 with n16, n17; below it s3 with n24.
    assert_eq!(line.ranks, [1, 0, 4, 2, 3, 5]);
    let fork = |first, last| Fork { first, last };
    assert_eq!(line.forks(), [fork(0, 5), fork(0, 5), fork(0, 5), fork(3, 5), fork(3, 5)]);
    // n8 may pass n9 and n0 on its way to n16, but not n16 and n17 on its way to n24: both paths
    // use s2 to s3.
    assert!(may_pass(&line.forks(), 0, 3) && !may_pass(&line.forks(), 0, 5));
    assert!(may_pass(&line.forks(), 2, 5));
}

#[test]
fn a_host_may_always_pass_one() {
    let bed = Topology::builtin("fig9-5").expect("fig9-5");
    let all: Vec<usize> = (0..32).collect();
    let forks = Line::new(&bed, 7, &all).expect("all hosts").forks();
    assert!((0..30).all(|place| may_pass(&forks, place, place + 2)));
}

/// Returns the height of the lowest binary tree over a line that visits switches in the order
/// `onward`, over the members on some switches.
fn height(topology: &Topology, root_host: usize, onward: &[Vec<usize>], takes_part: impl Fn(usize) -> bool) -> usize {
    let on = |switch: usize| topology.hosts_on(switch).filter(move |&host| host != root_host);
    let ranks_on = |switch| on(switch).take(if takes_part(switch) { usize::MAX } else { 0 });
    let line = Line::walk(root_host, topology.switch_of(root_host), onward, ranks_on);
    let parents = layers::parents(&line.forks(), 2);
    let mut depths = vec![0; parents.len()];
    (1..parents.len()).for_each(|place| depths[place] = depths[parents[place]] + 1);
    depths.into_iter().max().expect("the root has a depth")
}

fn way(topology: &Topology, from: usize, to: usize, came_from: Option<usize>) -> Option<Vec<usize>> {
    if from == to {
        return Some(vec![to]);
    }
    let onward = topology.neighbours(from).iter().filter(|&&next| Some(next) != came_from);
    let rest = onward.filter_map(|&next| way(topology, next, to, Some(from))).next()?;
    Some([from].into_iter().chain(rest).collect())
}

fn shuffled(onward: &[Vec<usize>], mut seed: u64) -> Vec<Vec<usize>> {
    let mut throw = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let mut onward = onward.to_vec();
    onward.iter_mut().for_each(|next| next.sort_by_cached_key(|_| throw()));
    onward
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_order_of_visits_saves_what_the_switches_along_one_way_take(
        topology in arbitrary::topology(20, 80),
        root in any::<prop::sample::Index>(),
        end in any::<prop::sample::Index>(),
        seed in any::<u64>(),
    ) {
        let root_host = root.index(topology.hosts().len());
        let start = topology.switch_of(root_host);
        let onward = onward(&topology, start, None, |_| true);
        let way = way(&topology, start, end.index(topology.switches().len()), None).expect("switches are joined");
        let bound = height(&topology, root_host, &onward, |switch| way.contains(&switch));
        let other = height(&topology, root_host, &shuffled(&onward, seed), |_| true);
        prop_assert!(other >= bound, "{} {}\n{}", other, bound, topology.to_toml());
    }

    #[test]
    fn with_eight_hosts_on_every_switch_no_order_of_visits_makes_a_tree_lower_by_two(
        links in prop::collection::vec(any::<prop::sample::Index>(), 1..24),
        root in any::<prop::sample::Index>(),
        seed in any::<u64>(),
    ) {
        let topology = network(&vec![8; links.len() + 1], |id| links[id - 1].index(id));
        let root_host = root.index(topology.hosts().len());
        let onward = onward(&topology, topology.switch_of(root_host), None, |_| true);
        let lowest = height(&topology, root_host, &onward, |_| true);
        for seed in (seed..=u64::MAX).take(10) {
            let other = height(&topology, root_host, &shuffled(&onward, seed), |_| true);
            prop_assert!(other + 1 >= lowest, "{} {}\n{}", other, lowest, topology.to_toml());
        }
    }
}

fn bed(name: &str) -> Topology {
    Topology::builtin(name).expect(name)
}

fn route(plan: &Plan, members: &[usize]) -> Vec<usize> {
    let next = |rank: &usize| plan.children(*rank).first().copied();
    std::iter::successors(Some(plan.root()), next).map(|rank| members[rank]).collect()
}

#[test]
fn the_chain_follows_the_switches() {
    let all: Vec<usize> = (0..32).collect();
    let plan = chain(&bed("fig9-5"), 0, &all).expect("a chain");
    let by_switch: Vec<usize> = (0..4).flat_map(|switch| (switch..32).step_by(4)).collect();
    assert_eq!(route(&plan, &all), by_switch);
    assert_eq!((plan.height(), plan.degree()), (31, 1));
}

#[test]
fn a_chain_from_the_middle_of_a_row_goes_the_short_way_then_the_long_one() {
    let all: Vec<usize> = (0..32).collect();
    let plan = chain(&bed("fig9-4"), 18, &all).expect("a chain");
    let expected: Vec<usize> = [18, 16, 17].into_iter().chain(19..24).chain(24..32).chain(8..16).chain(0..8).collect();
    assert_eq!(route(&plan, &all), expected);
}

#[test]
fn only_members_take_part_and_ranks_are_theirs() {
    let members = [20, 3, 11, 4];
    let plan = chain(&bed("fig9-4"), 11, &members).expect("a chain");
    assert_eq!(plan.root(), 2);
    // With one member on one side and two on the other, the one comes first.
    assert_eq!(route(&plan, &members), [11, 20, 3, 4]);
}

#[test]
fn every_root_of_every_test_bed_is_free_of_contention() {
    for name in BUILTIN_NAMES {
        let bed = bed(name);
        let all = all_of(&bed);
        for &root in &all {
            let report = check(&bed, &chain(&bed, root, &all).expect("a chain"), &all);
            assert!(report.is_good(), "{name} from {root}: {report}");
        }
    }
}

#[test]
fn members_that_are_none_are_refused() {
    let bed = bed("fig9-1");
    assert_eq!(chain(&bed, 3, &[0, 1]), Err(PlanError::RootNotMember(3)));
    assert_eq!(chain(&bed, 99, &[0, 1]), Err(PlanError::RootNotMember(99)));
    assert_eq!(chain(&bed, 0, &[0, 16]), Err(PlanError::NoSuchHost { host: 16, hosts: 16 }));
    assert_eq!(chain(&bed, 0, &[0, 1, 0]), Err(PlanError::MemberTwice(0)));
    assert_eq!(chain(&bed, 0, &[]), Err(PlanError::RootNotMember(0)));
}

/// 10 000 hosts: on 400 switches in a tree of fan-out 7, and one per switch in a row of 10 000
/// switches.
#[test]
fn ten_thousand_hosts_take_about_ten_times_as_long_as_a_thousand() {
    let tree = |switches: usize, fan_out: usize, each: usize| network(&vec![each; switches], |id| (id - 1) / fan_out);
    for (small, topology) in [(tree(40, 7, 25), tree(400, 7, 25)), (tree(1_000, 1, 1), tree(10_000, 1, 1))] {
        let all: Vec<usize> = (0..10_000).collect();
        // A linear search per host would take a hundred times as long.
        assert_about_ten_times(
            || drop(chain(&small, 500, &all[..1_000]).expect("a chain")),
            || drop(chain(&topology, 5_000, &all).expect("a chain")),
        );
        let plan = chain(&topology, 5_000, &all).expect("a chain");
        assert_eq!(plan.height(), 9_999);
        assert!(check(&topology, &plan, &all).is_good());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn random_trees_from_random_roots_over_random_members_are_free_of_contention(
        (topology, members, root) in arbitrary::topology(14, 40).prop_flat_map(|topology| {
            let all = all_of(&topology);
            let some = prop::sample::subsequence(all.clone(), 1..=all.len()).prop_shuffle();
            (Just(topology), some, any::<prop::sample::Index>())
        })
    ) {
        let root_host = members[root.index(members.len())];
        let plan = chain(&topology, root_host, &members).expect("members are distinct hosts");
        let report = check(&topology, &plan, &members);
        prop_assert!(report.is_good(), "{}\n{}", report, topology.to_toml());
        prop_assert_eq!(plan.height() + 1, members.len());
        prop_assert_eq!(members[plan.root()], root_host);
    }
}

#[test]
fn the_switch_with_the_most_steps_comes_last() {
    // Below s0: the row s1, s2 and the switches s3 to s6, of which s4 has no hosts.
    let network = network(&[1, 2, 2, 7, 0, 5, 2], |id| usize::from(id == 2));
    // In order: none; two hosts; four in a row of two switches, which takes two steps as five
    // and seven do, but has fewer hosts.
    assert_eq!(onward(&network, 0, None, |_| true)[0], [4, 6, 1, 5, 3]);
    let without_s3 = |host| network.switch_of(host) != 3;
    assert_eq!(onward(&network, 0, None, without_s3)[0], [3, 4, 6, 1, 5]);
}

#[test]
fn runs_below_a_switch_take_a_step_each() {
    let leaf = Below { steps: 0, members: 1 };
    let none = Below::default();
    assert_eq!(Below::of(1, [none, leaf, leaf, leaf].into_iter()), Below { steps: 3, members: 4 });
    assert_eq!(Below::of(9, [none].into_iter()), Below { steps: 3, members: 9 });
    assert_eq!(Below::of(0, [none, none].into_iter()), none);
}
