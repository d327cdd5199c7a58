//! Lowest trees: against all trees there are, and on networks that leave little choice.

use super::super::{binary, check};
use super::*;
use crate::topology::arbitrary;
use proptest::prelude::*;

fn all_of(topology: &Topology) -> Vec<usize> {
    (0..topology.hosts().len()).collect()
}

/// The height of the lowest tree with up to `most` children that [`check`] finds free of contention, among all trees over
/// the chain's order in which the ranks below each rank follow it without a gap.
fn lowest(topology: &Topology, route: &[usize], most: usize) -> usize {
    // Such a tree is a depth for each place, at most one more than the place before it.
    fn deepen(depths: &mut Vec<usize>, places: usize, judge: &mut impl FnMut(&[usize])) {
        if depths.len() == places {
            return judge(depths);
        }
        for depth in 1..=depths[depths.len() - 1] + 1 {
            depths.push(depth);
            deepen(depths, places, judge);
            depths.pop();
        }
    }
    let mut lowest = route.len();
    deepen(&mut vec![0], route.len(), &mut |depths| {
        let parent = |place: usize| depths[..place].iter().rposition(|&depth| depth + 1 == depths[place]);
        let parents: Vec<Option<usize>> = (0..depths.len()).map(parent).collect();
        if let Ok(plan) = Plan::from_parents(Via::Kary(most as u8), 0, &parents)
            && plan.height() < lowest
            && check(topology, &plan, route).is_good()
        {
            lowest = plan.height();
        }
    });
    lowest
}

/// The hosts by place.
fn route(topology: &Topology, root_host: usize) -> Vec<usize> {
    Line::new(topology, root_host, &all_of(topology)).expect("all hosts").ranks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_tree_is_lower(topology in arbitrary::topology(8, 9), most in 2u8..=4, root in any::<prop::sample::Index>()) {
        let all = all_of(&topology);
        let root = root.index(all.len());
        let plan = kary(&topology, root, &all, most).expect("all hosts");
        prop_assert!(check(&topology, &plan, &all).is_good(), "{}", topology.to_toml());
        prop_assert_eq!(plan.height(), lowest(&topology, &route(&topology, root), most.into()), "{}", topology.to_toml());
    }

    #[test]
    fn two_children_do_as_well_as_algorithm_2_and_more_do_no_worse(
        topology in arbitrary::topology(20, 80),
        root in any::<prop::sample::Index>(),
    ) {
        let all = all_of(&topology);
        let root = root.index(all.len());
        let mut height = binary(&topology, root, &all).expect("all hosts").height();
        for most in [2, 3, 4, 9, 64] {
            let plan = kary(&topology, root, &all, most).expect("all hosts");
            prop_assert!(check(&topology, &plan, &all).is_good());
            prop_assert!(plan.height() <= height, "kary={} {}", most, plan.height());
            height = plan.height();
        }
    }
}

#[test]
fn on_one_switch_the_trees_are_complete() {
    let names = (0..1_000).map(|number| format!("n{number}"));
    let topology = Topology::single_switch(names).expect("names");
    for (most, height) in [(2, 9), (3, 6), (4, 5), (10, 3), (31, 3), (32, 2), (64, 2)] {
        let plan = kary(&topology, 500, &all_of(&topology), most).expect("all hosts");
        assert_eq!((plan.height(), plan.via()), (height, Via::Kary(most)));
    }
}

/// Switches in a row, so many hosts on each; the root on the first or in the middle.
fn row(switches: usize, hosts_each: usize) -> Topology {
    let mut text = "schema = 1\n".to_string();
    for id in 0..switches {
        let (low, high) = (id * hosts_each, (id + 1) * hosts_each - 1);
        let link = if id == 0 { String::new() } else { format!("'s{}'", id - 1) };
        text += &format!("[[switch]]\nname = 's{id}'\nhosts = 'n[{low}-{high}]'\nlinks = [{link}]\n");
    }
    Topology::parse(&text, "row").expect("a tree")
}

#[test]
fn long_rows_are_planned_in_bounded_time() {
    // With one host each, a host may pass one other at a time. The lowest tree is found for twenty each: a step a switch.
    for (switches, each, root, most, height) in
        [(10_000, 1, 0, 2, 5_000), (10_000, 1, 5_000, 3, 5_000), (500, 20, 0, 2, 510), (500, 20, 5_000, 3, 260)]
    {
        let topology = row(switches, each);
        let started = std::time::Instant::now();
        let plan = kary(&topology, root, &all_of(&topology), most).expect("all hosts");
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
        assert!(check(&topology, &plan, &all_of(&topology)).is_good());
        assert!(plan.height() <= height, "{switches} {each} {most}: {}", plan.height());
    }
}

#[test]
fn a_number_of_children_out_of_range_is_refused() {
    let topology = row(1, 4);
    for children in [0, 1, 65] {
        assert_eq!(kary(&topology, 0, &[0, 1], children), Err(PlanError::Children { children }));
    }
}
