//! Broadcast trees with two (or k) children per host whose sends never share a cable (Patarasuk
//! 2008 §4.1.2, Algorithm 2).
//!
//! Figure 4 finds, for every run of places of the chain's order, a binary tree of small height. Its
//! first place is the root, the next the left child. The right child is the place that makes the
//! tree lowest among those the root can reach without contention with the left sub-tree. As printed
//! that takes O(P⁴); here equal trees take P³/6 steps of two instructions each, eight at a time
//! where the compiler uses vectors. Whether the root can reach a place does not depend on the left
//! sub-tree ([`may_pass`]), and only heights are kept, because the final tree follows from them.

use super::Speeds;
use super::line::{Fork, Line, may_pass};
use super::tree::Plan;
use super::via::Via;
use super::{PlanError, layers};
use crate::topology::Topology;

/// Limit of ranks for which [`binary`] runs Algorithm 2, whose memory is this number's square in
/// bytes.
pub const ALGORITHM_2_RANKS: usize = 4_096;

/// Plans a binary tree over `members` (host ids; a member's rank is its index) from the member
/// `root_host`; a rank sends to its left child first.
///
/// Up to [`ALGORITHM_2_RANKS`] members this is the tree of Algorithm 2. Above, it is the tree of
/// [`kary`] with two children, found in O(P·log²P) on usual topologies: free of contention too, and
/// never higher as long as the search stays within the bound that is documented there.
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
    line.spare_slow_hosts(topology, &parents, members, speeds);
    line.plan(Via::Binary, &parents)
}

/// Plans a tree with up to `most_children` children over `members` (host ids; a member's rank is
/// its index) from the member `root_host`; a rank sends to its children in the order of the chain.
///
/// A run of places of the chain's order is partitioned into up to k runs, one for each sub-tree,
/// such that no send of the root has contention with one inside an earlier sub-tree. Among all such
/// trees this is one of the least height, so with two children it is never higher than [`binary`]:
/// a rank may have fewer children than it could, which Algorithm 2 does not consider.
///
/// Time O(H·k·N·log P) and memory O(k·N + H·P) for P members and height H, N being P times the
/// number of switches above a host that are not the last below their own: few in a usual network.
/// On networks thousands of switches deep, where this would take more than 2²⁴ entries, the tree is
/// higher than need be, at most P/2, and still free of contention.
///
/// # Errors
/// The errors of [`chain`](super::chain()), and [`PlanError::Children`] unless `most_children` is
/// one of [`Via::KARY_CHILDREN`].
pub fn kary(
    topology: &Topology,
    root_host: usize,
    members: &[usize],
    most_children: u8,
) -> Result<Plan, PlanError> {
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
    line.spare_slow_hosts(topology, &parents, members, speeds);
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
                heights.to[last][root] = if last == root + 1 {
                    1
                } else {
                    lowest(&lefts, &heights.to[last][root + 2..]) + 1
                };
            }
        }
        heights
    }

    fn list_lefts(&self, root: usize, lefts: &mut Vec<Height>) {
        let end = self
            .forks
            .get(root)
            .map_or(0, |fork| (fork.last + 2).min(self.to.len()));
        let left = |right: usize| {
            if may_pass(self.forks, root, right) {
                self.to[right - 1][root + 1]
            } else {
                TALL
            }
        };
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
        (root + 2..=last)
            .find(is_best)
            .expect("the height came from one of these places")
    }
}

fn lowest(lefts: &[Height], rights: &[Height]) -> Height {
    lefts
        .iter()
        .zip(rights)
        .fold(TALL, |lowest, (&left, &right)| lowest.min(left.max(right)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::check;
    use crate::plan::tests::{all_of, network};
    use crate::topology::arbitrary;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    type Edges = Vec<(usize, usize)>;

    /// Figure 4, line by line; `route` has the hosts of the linear tree in order.
    struct Printed<'a> {
        topology: &'a Topology,
        route: Vec<usize>,
        paths: Vec<Vec<BTreeSet<(String, String)>>>,
    }

    impl<'a> Printed<'a> {
        fn new(topology: &'a Topology, route: Vec<usize>) -> Self {
            let mut printed = Self {
                topology,
                route,
                paths: Vec::new(),
            };
            let places = 0..printed.route.len();
            printed.paths = places
                .clone()
                .map(|from| places.clone().map(|to| printed.path(from, to)).collect())
                .collect();
            printed
        }

        fn path(&self, from: usize, to: usize) -> BTreeSet<(String, String)> {
            let (from, to) = (self.route[from], self.route[to]);
            let switches = self
                .switches(
                    self.topology.switch_of(from),
                    self.topology.switch_of(to),
                    None,
                )
                .expect("switches are joined");
            let named = switches.iter().map(|&switch| format!("switch {switch}"));
            let nodes: Vec<String> = [format!("host {from}")]
                .into_iter()
                .chain(named)
                .chain([format!("host {to}")])
                .collect();
            nodes
                .windows(2)
                .map(|pair| (pair[0].clone(), pair[1].clone()))
                .collect()
        }

        fn switches(&self, from: usize, to: usize, came_from: Option<usize>) -> Option<Vec<usize>> {
            if from == to {
                return Some(vec![to]);
            }
            let onward = self
                .topology
                .neighbours(from)
                .iter()
                .filter(|&&next| Some(next) != came_from);
            let rest = onward
                .filter_map(|&next| self.switches(next, to, Some(from)))
                .next()?;
            Some([from].into_iter().chain(rest).collect())
        }

        fn contends(&self, (from, to): (usize, usize), tree: &Edges) -> bool {
            tree.iter()
                .any(|&(a, b)| !self.paths[from][to].is_disjoint(&self.paths[a][b]))
        }

        fn trees(&self) -> (Vec<Vec<Edges>>, Vec<Vec<usize>>) {
            let p = self.route.len();
            let mut best = vec![vec![0; p]; p];
            let mut tree = vec![vec![Edges::new(); p]; p];
            for i in 0..p.saturating_sub(1) {
                best[i][i + 1] = 1;
                tree[i][i + 1] = vec![(i, i + 1)];
            }
            for i in 0..p.saturating_sub(2) {
                best[i][i + 2] = 1;
                tree[i][i + 2] = vec![(i, i + 1), (i, i + 2)];
            }
            for j in 3..p {
                for i in 0..p - j {
                    best[i][i + j] = usize::MAX;
                    let mut index = 0;
                    for k in i + 2..=i + j {
                        if !self.contends((i, k), &tree[i + 1][k - 1]) {
                            let height = best[i + 1][k - 1].max(best[k][i + j]) + 1;
                            if best[i][i + j] > height {
                                best[i][i + j] = height;
                                index = k;
                            }
                        }
                    }
                    let both = [
                        tree[i + 1][index - 1].as_slice(),
                        &tree[index][i + j],
                        &[(i, i + 1), (i, index)],
                    ]
                    .concat();
                    tree[i][i + j] = both;
                }
            }
            (tree, best)
        }
    }

    fn compare(topology: &Topology, root_host: usize, members: &[usize]) {
        let line = Line::new(topology, root_host, members).expect("members are hosts");
        let printed = Printed::new(
            topology,
            line.ranks.iter().map(|&rank| members[rank]).collect(),
        );
        let (trees, best) = printed.trees();
        let forks = line.forks();
        let heights = Heights::new(&forks);
        for first in 0..members.len() {
            for last in first..members.len() {
                assert_eq!(
                    heights.to[last][first] as usize,
                    best[first][last],
                    "{first}..={last}\n{}",
                    topology.to_toml()
                );
                let parents = heights.parents(first, last);
                let ours: BTreeSet<(usize, usize)> = (first + 1..=last)
                    .map(|place| (parents[place], place))
                    .collect();
                assert_eq!(
                    ours,
                    trees[first][last].iter().copied().collect(),
                    "{first}..={last}\n{}",
                    topology.to_toml()
                );
            }
        }
        let plan = binary(topology, root_host, members).expect("members are hosts");
        assert_eq!(plan.height(), best[0][members.len() - 1]);
        let of_ranks: BTreeSet<(usize, usize)> = plan.edges().collect();
        let ranked = trees[0][members.len() - 1]
            .iter()
            .map(|&(from, to)| (line.ranks[from], line.ranks[to]));
        assert_eq!(of_ranks, ranked.collect());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn every_tree_is_the_printed_one(
            (topology, members) in arbitrary::topology(10, 24).prop_flat_map(|topology| {
                let all = all_of(&topology);
                let some = prop::sample::subsequence(all.clone(), 1..=all.len()).prop_shuffle();
                (Just(topology), some)
            })
        ) {
            compare(&topology, members[0], &members);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn every_tree_of_64_is_the_printed_one(
            topology in arbitrary::topology(16, 64), root in any::<prop::sample::Index>(),
        ) {
            let all = all_of(&topology);
            compare(&topology, root.index(all.len()), &all);
        }
    }

    #[test]
    fn every_tree_on_the_test_beds_is_the_printed_one() {
        for name in crate::topology::BUILTIN_NAMES {
            let bed = Topology::builtin(name).expect(name);
            for root in [0, 5, 13] {
                compare(&bed, root, &all_of(&bed));
            }
        }
    }

    #[test]
    fn heights_on_the_test_beds() {
        let height = |name: &str| {
            let bed = Topology::builtin(name).expect(name);
            binary(&bed, 0, &all_of(&bed)).expect("all hosts").height()
        };
        assert_eq!(
            ["fig9-1", "fig9-2", "fig9-3", "fig9-4", "fig9-5"].map(height),
            [4, 5, 5, 6, 6]
        );
    }

    #[test]
    fn the_left_child_is_served_first() {
        let bed = Topology::builtin("fig9-4").expect("fig9-4");
        let plan = binary(&bed, 18, &all_of(&bed)).expect("all hosts");
        // m₁ is the first other host on the root's switch.
        assert_eq!(plan.children(18)[0], 16);
        assert_eq!(plan.degree(), 2);
    }

    /// Eight hosts a switch. From the root's switch, `s0`, hang a row of five and, with higher ids,
    /// three switches.
    #[test]
    fn switches_beside_a_long_row_make_no_tree_higher() {
        let topology = network(&[8; 9], |id| if id < 6 { id - 1 } else { 0 });
        let height = |members: &[usize]| {
            binary(&topology, 0, members)
                .expect("members are hosts")
                .height()
        };
        let row: Vec<usize> = (0..48).collect();
        assert_eq!([height(&row), height(&all_of(&topology))], [8, 8]);
    }

    /// Returns a random cluster as large as Figure 5's. It has its own generator, because
    /// proptest's would take longer than the planning.
    fn cluster(switches: usize, hosts: usize, seed: u64) -> Topology {
        let mut state = seed;
        let mut below = |bound: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        let on: Vec<usize> = (0..hosts).map(|_| below(switches)).collect();
        let mut text = "schema = 1\n".to_string();
        for id in 0..switches {
            let link = if id == 0 {
                String::new()
            } else {
                format!("'s{}'", below(id))
            };
            let here: Vec<String> = (0..hosts)
                .filter(|&host| on[host] == id)
                .map(|host| format!("'n{host}'"))
                .collect();
            text += &format!(
                "[[switch]]\nname = 's{id}'\nhosts = [{}]\nlinks = [{link}]\n",
                here.join(", ")
            );
        }
        Topology::parse(&text, "cluster").expect("a tree")
    }

    #[test]
    fn a_thousand_hosts_are_planned() {
        for switches in [1, 64, 128] {
            let topology = cluster(switches, 1_024, 7);
            let plan = binary(&topology, 0, &all_of(&topology)).expect("all hosts");
            assert!(check(&topology, &plan, &all_of(&topology)).is_good());
            assert!(plan.height() <= 20, "{switches}: {}", plan.height());
        }
    }

    #[test]
    fn ten_thousand_hosts_are_planned_and_no_higher_than_by_algorithm_2() {
        for switches in [1, 400, 1_250] {
            let topology = cluster(switches, 10_000, 3);
            let plan = binary(&topology, 9_999, &all_of(&topology)).expect("all hosts");
            assert!(check(&topology, &plan, &all_of(&topology)).is_good());
            assert!(plan.height() <= 36, "{switches}: {}", plan.height());
        }
        let topology = cluster(100, ALGORITHM_2_RANKS / 4, 5);
        let by_algorithm_2 = binary(&topology, 1, &all_of(&topology))
            .expect("all hosts")
            .height();
        assert!(
            kary(&topology, 1, &all_of(&topology), 2)
                .expect("all hosts")
                .height()
                <= by_algorithm_2
        );
    }

    /// Returns the height of the lowest tree with up to `most` children that [`check`] finds free
    /// of contention, among all trees over the chain's order in which each rank's subtree is
    /// contiguous.
    fn lowest(topology: &Topology, route: &[usize], most: usize) -> usize {
        // A tree is a depth for each place, at most one more than that of the place before.
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
            let parent = |place: usize| {
                depths[..place]
                    .iter()
                    .rposition(|&depth| depth + 1 == depths[place])
            };
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

    fn route(topology: &Topology, root_host: usize) -> Vec<usize> {
        Line::new(topology, root_host, &all_of(topology))
            .expect("all hosts")
            .ranks
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn no_tree_is_lower(
            topology in arbitrary::topology(8, 9),
            most in 2u8..=4,
            root in any::<prop::sample::Index>(),
        ) {
            let all = all_of(&topology);
            let root = root.index(all.len());
            let plan = kary(&topology, root, &all, most).expect("all hosts");
            prop_assert!(check(&topology, &plan, &all).is_good(), "{}", topology.to_toml());
            let least = lowest(&topology, &route(&topology, root), most.into());
            prop_assert_eq!(plan.height(), least, "{}", topology.to_toml());
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

    fn row(switches: usize, hosts_each: usize) -> Topology {
        network(&vec![hosts_each; switches], |id| id - 1)
    }

    #[test]
    fn long_rows_are_planned_as_low_as_can_be() {
        // With one host each, a host may pass one other at a time. With twenty each the lowest tree
        // is found: a step per switch.
        for (switches, each, root, most, height) in [
            (10_000, 1, 0, 2, 5_000),
            (4_000, 1, 2_000, 3, 2_000),
            (200, 20, 0, 2, 210),
            (500, 20, 5_000, 3, 260),
        ] {
            let topology = row(switches, each);
            let plan = kary(&topology, root, &all_of(&topology), most).expect("all hosts");
            assert!(check(&topology, &plan, &all_of(&topology)).is_good());
            assert!(
                plan.height() <= height,
                "{switches} {each} {most}: {}",
                plan.height()
            );
        }
    }

    #[test]
    fn a_number_of_children_out_of_range_is_refused() {
        let topology = row(1, 4);
        for children in [0, 1, 65] {
            assert_eq!(
                kary(&topology, 0, &[0, 1], children),
                Err(PlanError::Children(children))
            );
        }
    }
}
