//! Tests of chains on the papers' test beds, on random networks, and for ten thousand hosts.

use super::*;
use crate::plan::check;
use crate::plan::tests::assert_about_ten_times;
use crate::topology::{BUILTIN_NAMES, arbitrary};
use proptest::prelude::*;

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
        let all: Vec<usize> = (0..bed.hosts().len()).collect();
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
    let tree = |switches: usize, fan_out: usize, hosts_each: usize| {
        let mut text = "schema = 1\n".to_string();
        for id in 0..switches {
            let (low, high) = (id * hosts_each, (id + 1) * hosts_each - 1);
            let link = if id == 0 { String::new() } else { format!("'s{}'", (id - 1) / fan_out) };
            text += &format!("[[switch]]\nname = 's{id}'\nhosts = 'n[{low}-{high}]'\nlinks = [{link}]\n");
        }
        Topology::parse(&text, "large").expect("a tree")
    };
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
            let all: Vec<usize> = (0..topology.hosts().len()).collect();
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
