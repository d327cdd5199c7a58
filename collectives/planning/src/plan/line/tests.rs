//! Tests of the depth-first order: forks counted by hand, and the effect of another order of
//! visits.

use super::*;
use crate::plan::layers;
use crate::topology::arbitrary;
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
        let onward = order::onward(&topology, start, None, |_| true);
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
        let cables: Vec<_> = links.iter().enumerate().map(|(id, link)| (id + 1, link.index(id + 1))).collect();
        let topology = order::tests::network(&vec![8; links.len() + 1], &cables);
        let root_host = root.index(topology.hosts().len());
        let onward = order::onward(&topology, topology.switch_of(root_host), None, |_| true);
        let lowest = height(&topology, root_host, &onward, |_| true);
        for seed in (seed..=u64::MAX).take(10) {
            let other = height(&topology, root_host, &shuffled(&onward, seed), |_| true);
            prop_assert!(other + 1 >= lowest, "{} {}\n{}", other, lowest, topology.to_toml());
        }
    }
}
