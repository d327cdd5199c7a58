//! Order of the hosts in a depth-first walk over the switches, from which contention-free broadcast
//! trees are made.
//!
//! A **place** is a position in that order; place 0 is the root (m₀, m₁, … in Patarasuk 2008
//! §4.1.2).
//!
//! # Chains
//! [`chain`] plans the contention-free linear tree (Patarasuk 2008 §4.1.1, Algorithm 1).
//!
//! Switches are numbered in the order a depth-first search from the root's switch arrives at them;
//! the chain visits the hosts switch by switch in that order. The search walks every cable once in
//! each direction, so no two hops of the chain cross a cable in the same direction (Theorem 1).
//! Leaving hosts out joins consecutive hops into one whose path is part of theirs, so a chain over
//! some of the hosts is contention-free too (Lemma 2).
//!
//! # Order of visits
//! The order in which the walk visits the children of a switch is left open by Algorithm 1.
//!
//! The order decides the height of a tree over the line. A rank on a switch can pass the runs below
//! that switch only whole, from the first on. Seen from the switch, the run visited last can hang
//! one step down, the one before it two, and so on. The height is least if the run that needs the
//! most steps is visited last. This holds where every switch has more hosts than switches below it,
//! as in clusters. With two hosts per switch, runs must often be reached through the run before.
//! The opposite order would then be better, by a tenth on random trees of switches; with four hosts
//! it is worse.

use super::PlanError;
use super::tree::Plan;
use super::via::Via;
use super::{Speeds, USUAL};
use crate::topology::{Topology, Walk};

pub(super) struct Line {
    pub ranks: Vec<usize>,
    visits: Vec<Visit>,
    visit_of_place: Vec<usize>,
}

/// One switch on the walk. All members at or below it are at the places `first..end`.
struct Visit {
    above: usize,
    first: usize,
    end: usize,
}

/// Span of the places under the switch where the path from one place to the next turns from up to
/// down.
///
/// The switch is the lowest with both places under it. The span decides all contention between
/// sub-trees of a line: see [`may_pass`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fork {
    pub first: usize,
    pub last: usize,
}

/// Whether a send from place `from` to place `to` has no contention with a tree over the places
/// between them. The tree is rooted at the first of these, and its edges lead to later places.
/// `forks[i]` is the fork between places `i` and `i + 1`.
///
/// The result is that of line (17) of Figure 4, without a look at the tree. The send and the tree
/// can meet only on cables between switches. Upwards: `from` and the next place, the tree's root,
/// are both under the cable; some edge of the tree climbs it if and only if one of its places is
/// not under it. The lowest such cable is the one above the fork behind `from`, so there is none
/// exactly if all places between are under that fork. Downwards: `to` and the place before it are
/// both under the cable; some edge of the tree descends it if and only if the tree's root is not
/// under it. It follows that there is none exactly if the root is under the fork before `to`.
pub(super) fn may_pass(forks: &[Fork], from: usize, to: usize) -> bool {
    to - 1 <= forks[from].last && forks[to - 1].first <= from + 1
}

impl Line {
    /// Walks the switches from the root's; those right below a switch come in the order of
    /// [`onward`], members on one switch by host id, the root first of all. Linear in hosts, and
    /// S·log S for S switches.
    #[cfg(test)]
    pub fn new(
        topology: &Topology,
        root_host: usize,
        members: &[usize],
    ) -> Result<Self, PlanError> {
        Self::sparing(topology, root_host, members, None)
    }

    /// Walks where some cables are slow: hosts behind them come last.
    pub fn sparing(
        topology: &Topology,
        root_host: usize,
        members: &[usize],
        speeds: Option<&Speeds>,
    ) -> Result<Self, PlanError> {
        Self::reordered(topology, root_host, members, speeds, |_| {})
    }

    pub fn reordered(
        topology: &Topology,
        root_host: usize,
        members: &[usize],
        speeds: Option<&Speeds>,
        reorder: impl FnMut(&mut Vec<usize>),
    ) -> Result<Self, PlanError> {
        let rank_of = rank_hosts(topology, members)?;
        let root = rank_of
            .get(root_host)
            .copied()
            .flatten()
            .ok_or(PlanError::RootNotMember(root_host))?;
        let start = topology.switch_of(root_host);
        let mut onward = onward(topology, start, speeds, |host| rank_of[host].is_some());
        onward.iter_mut().for_each(reorder);
        let ranks_on = |switch| {
            topology
                .hosts_on(switch)
                .filter_map(|host| rank_of[host])
                .filter(|&rank| rank != root)
        };
        Ok(Self::walk(root, start, &onward, ranks_on))
    }

    fn walk<Ranks: Iterator<Item = usize>>(
        root: usize,
        start: usize,
        onward: &[Vec<usize>],
        ranks_on: impl Fn(usize) -> Ranks,
    ) -> Self {
        let mut line = Self {
            ranks: vec![root],
            visits: Vec::new(),
            visit_of_place: vec![0],
        };
        let mut stack = vec![(start, 0)];
        // An explicit stack, because a row of switches may be thousands long.
        while let Some((switch, above)) = stack.pop() {
            let visit = line.visits.len();
            let first = if visit == 0 { 0 } else { line.ranks.len() };
            line.ranks.extend(ranks_on(switch));
            line.visit_of_place.resize(line.ranks.len(), visit);
            line.visits.push(Visit {
                above,
                first,
                end: line.ranks.len(),
            });
            stack.extend(onward[switch].iter().rev().map(|&next| (next, visit)));
        }
        // Later visits end later, and all below a switch come after it.
        for visit in (1..line.visits.len()).rev() {
            let (above, end) = (line.visits[visit].above, line.visits[visit].end);
            line.visits[above].end = line.visits[above].end.max(end);
        }
        line
    }

    /// Returns the fork between each place and the next. Linear: together these paths cross every
    /// cable at most once upwards.
    pub fn forks(&self) -> Vec<Fork> {
        let fork_before = |next: usize| {
            let mut visit = self.visit_of_place[next - 1];
            while self.visits[visit].end <= next {
                visit = self.visits[visit].above;
            }
            Fork {
                first: self.visits[visit].first,
                last: self.visits[visit].end - 1,
            }
        };
        (1..self.ranks.len()).map(fork_before).collect()
    }

    /// Moves slow and far hosts to the places with the fewest children among those on their switch,
    /// to the last one if several are equal; the root stays. That changes no cable between
    /// switches.
    pub fn spare_slow_hosts(
        &mut self,
        topology: &Topology,
        parents: &[usize],
        members: &[usize],
        speeds: Option<&Speeds>,
    ) {
        if speeds.is_none() && !topology.has_latencies() {
            return;
        }
        // A far host delays all below it.
        let slowness = |&rank: &usize| {
            let host = members[rank];
            let sending = speeds.map_or(USUAL, |speeds| speeds.sending(host));
            (sending, topology.host_latency_ns(host))
        };
        let mut children = vec![0usize; parents.len()];
        parents
            .iter()
            .skip(1)
            .for_each(|&parent| children[parent] += 1);
        let mut places_of = vec![Vec::new(); self.visits.len()];
        (1..self.ranks.len()).for_each(|place| places_of[self.visit_of_place[place]].push(place));
        for mut places in places_of {
            let mut ranks: Vec<usize> = places.iter().map(|&place| self.ranks[place]).collect();
            // Both sorts are stable, so equal hosts stay in place.
            ranks.sort_by_key(slowness);
            if ranks.first().map(slowness) == ranks.last().map(slowness) {
                continue;
            }
            places.sort_by_key(|&place| std::cmp::Reverse(children[place]));
            places
                .into_iter()
                .zip(ranks)
                .for_each(|(place, rank)| self.ranks[place] = rank);
        }
    }

    /// Returns the plan in which each place but the first receives from its entry in `parents`; a
    /// place sends to its children in the order of their places.
    pub fn plan(&self, via: Via, parents: &[usize]) -> Result<Plan, PlanError> {
        let mut children = vec![Vec::new(); self.ranks.len()];
        for (place, &parent) in parents.iter().enumerate().skip(1) {
            children[self.ranks[parent]].push(self.ranks[place]);
        }
        Plan::from_children(via, self.ranks[0], &children)
    }
}

pub(super) fn rank_hosts(
    topology: &Topology,
    members: &[usize],
) -> Result<Vec<Option<usize>>, PlanError> {
    let hosts = topology.hosts().len();
    let mut rank_of = vec![None; hosts];
    for (rank, &host) in members.iter().enumerate() {
        match rank_of.get_mut(host) {
            None => return Err(PlanError::NoSuchHost { host, hosts }),
            Some(Some(_)) => return Err(PlanError::MemberTwice(host)),
            Some(free) => *free = Some(rank),
        }
    }
    Ok(rank_of)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Below {
    steps: usize,
    members: usize,
}

impl Below {
    fn of(members_here: usize, next: impl DoubleEndedIterator<Item = Below> + Clone) -> Self {
        let members = members_here + next.clone().map(|below| below.members).sum::<usize>();
        let at_least = members.checked_ilog2().map_or(0, |steps| steps as usize);
        let hung = next
            .rev()
            .filter(|below| below.members > 0)
            .zip(1..)
            .map(|(below, step)| below.steps + step);
        Self {
            steps: hung.fold(at_least, usize::max),
            members,
        }
    }
}

/// Returns for every switch its neighbours away from `start`: those first that need the fewest
/// steps, then those with fewer members, then by id. Slow and long cables come last of all: fewer
/// hosts wait for a later visit, and no way leads back from the last.
///
/// Takes S·log S steps for S switches, and no recursion: a row of switches may be thousands long.
fn onward(
    topology: &Topology,
    start: usize,
    speeds: Option<&Speeds>,
    is_member: impl Fn(usize) -> bool,
) -> Vec<Vec<usize>> {
    let walk = Walk::from(topology, start);
    let mut onward = walk.children();
    let mut below = vec![Below::default(); onward.len()];
    for &switch in walk.order().iter().rev() {
        let slowness =
            |next: usize| speeds.map_or(USUAL, |speeds| speeds.cable(topology, switch, next));
        let latency = |next: usize| topology.cable_latency_ns(switch, next);
        onward[switch]
            .sort_unstable_by_key(|&next| (slowness(next), latency(next), below[next], next));
        let members_here = topology
            .hosts_on(switch)
            .filter(|&host| is_member(host))
            .count();
        below[switch] = Below::of(members_here, onward[switch].iter().map(|&next| below[next]));
    }
    onward
}

/// Plans a chain over `members` (host ids; a member's rank is its index), starting at the member
/// `root_host`.
///
/// Switches, if the search has a choice, are visited by how many steps a tree over the members at
/// and below them takes, the fewest first, so that [`binary`](super::binary()), which starts from
/// the same order, gets low trees; of equals those with fewer members first, then by id. The
/// members on one switch come by host id. Hosts that are not members do not take part. Linear in
/// hosts, and S·log S for S switches.
///
/// # Errors
/// [`PlanError`] if the root is no member, a member is no host of the topology, or a member is
/// named twice.
pub fn chain(topology: &Topology, root_host: usize, members: &[usize]) -> Result<Plan, PlanError> {
    chain_sparing(topology, root_host, members, None)
}

/// Plans a chain where some cables and hosts are slow: hosts behind slow cables come last, and slow
/// hosts are last on their switch.
pub(super) fn chain_sparing(
    topology: &Topology,
    root_host: usize,
    members: &[usize],
    speeds: Option<&Speeds>,
) -> Result<Plan, PlanError> {
    let mut line = Line::sparing(topology, root_host, members, speeds)?;
    let before: Vec<usize> = (0..members.len())
        .map(|place| place.saturating_sub(1))
        .collect();
    line.spare_slow_hosts(topology, &before, members, speeds);
    line.plan(Via::Chain, &before)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(
            line.forks(),
            [fork(0, 5), fork(0, 5), fork(0, 5), fork(3, 5), fork(3, 5)]
        );
        // n8 may pass n9 and n0 on its way to n16, but not n16 and n17 on its way to n24: both
        // paths use s2 to s3.
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
    fn height(
        topology: &Topology,
        root_host: usize,
        onward: &[Vec<usize>],
        takes_part: impl Fn(usize) -> bool,
    ) -> usize {
        let on = |switch: usize| {
            topology
                .hosts_on(switch)
                .filter(move |&host| host != root_host)
        };
        let ranks_on = |switch| on(switch).take(if takes_part(switch) { usize::MAX } else { 0 });
        let line = Line::walk(root_host, topology.switch_of(root_host), onward, ranks_on);
        let parents = layers::parents(&line.forks(), 2);
        let mut depths = vec![0; parents.len()];
        (1..parents.len()).for_each(|place| depths[place] = depths[parents[place]] + 1);
        depths.into_iter().max().expect("the root has a depth")
    }

    fn way(
        topology: &Topology,
        from: usize,
        to: usize,
        came_from: Option<usize>,
    ) -> Option<Vec<usize>> {
        if from == to {
            return Some(vec![to]);
        }
        let onward = topology
            .neighbours(from)
            .iter()
            .filter(|&&next| Some(next) != came_from);
        let rest = onward
            .filter_map(|&next| way(topology, next, to, Some(from)))
            .next()?;
        Some([from].into_iter().chain(rest).collect())
    }

    fn shuffled(onward: &[Vec<usize>], mut seed: u64) -> Vec<Vec<usize>> {
        let mut throw = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            seed >> 33
        };
        let mut onward = onward.to_vec();
        onward
            .iter_mut()
            .for_each(|next| next.sort_by_cached_key(|_| throw()));
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
            for seed in (seed..=u64::MAX).take(4) {
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
        std::iter::successors(Some(plan.root()), next)
            .map(|rank| members[rank])
            .collect()
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
        let expected: Vec<usize> = [18, 16, 17]
            .into_iter()
            .chain(19..24)
            .chain(24..32)
            .chain(8..16)
            .chain(0..8)
            .collect();
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
        assert_eq!(
            chain(&bed, 0, &[0, 16]),
            Err(PlanError::NoSuchHost {
                host: 16,
                hosts: 16
            })
        );
        assert_eq!(chain(&bed, 0, &[0, 1, 0]), Err(PlanError::MemberTwice(0)));
        assert_eq!(chain(&bed, 0, &[]), Err(PlanError::RootNotMember(0)));
    }

    /// 10 000 hosts: on 400 switches in a tree of fan-out 7, and one per switch in a row of 10 000
    /// switches.
    #[test]
    fn ten_thousand_hosts_take_about_ten_times_as_long_as_a_thousand() {
        let tree = |switches: usize, fan_out: usize, each: usize| {
            network(&vec![each; switches], |id| (id - 1) / fan_out)
        };
        for (small, topology) in [
            (tree(40, 7, 25), tree(400, 7, 25)),
            (tree(1_000, 1, 1), tree(10_000, 1, 1)),
        ] {
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
        let leaf = Below {
            steps: 0,
            members: 1,
        };
        let none = Below::default();
        assert_eq!(
            Below::of(1, [none, leaf, leaf, leaf].into_iter()),
            Below {
                steps: 3,
                members: 4
            }
        );
        assert_eq!(
            Below::of(9, [none].into_iter()),
            Below {
                steps: 3,
                members: 9
            }
        );
        assert_eq!(Below::of(0, [none, none].into_iter()), none);
    }
}
