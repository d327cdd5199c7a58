//! The members in the order a depth-first walk over the switches meets them: what all aware planners start from.
//!
//! A **place** is a position in that order; place 0 is the root (m₀, m₁, … in Patarasuk 2008 §4.1.2).

use super::error::PlanError;
use super::tree::Plan;
use super::via::Via;
use crate::topology::Topology;

mod order;

/// The members by place, and where each switch's members are.
pub(super) struct Line {
    /// The rank at each place.
    pub ranks: Vec<usize>,
    /// The switches in the order the walk arrives at them.
    visits: Vec<Visit>,
    /// For each place, the visit that listed it.
    visit_of_place: Vec<usize>,
}

/// One switch on the walk; all members at or below it are at the places from `first` up to, not including, `end`.
struct Visit {
    /// The visit the walk came from; the first visit came from itself.
    above: usize,
    first: usize,
    end: usize,
}

/// The places under the switch where the way from one place to the next turns from up to down.
///
/// That switch is the lowest with both places under it. The span decides all contention between sub-trees of a line:
/// see [`may_pass`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fork {
    pub first: usize,
    pub last: usize,
}

/// Whether a send from place `from` to place `to` has no contention with a tree over the places between them, any tree
/// rooted at the first of them whose edges lead to later places; `forks[i]` is the fork between places `i` and `i + 1`.
///
/// This is line (17) of Figure 4 without a look at the tree. The send and the tree can meet only on cables between
/// switches. Upwards: `from` and the next place, the tree's root, are both under the cable; some edge of the tree
/// climbs it if and only if one of its places is not under it. The lowest such cable is the one above the fork behind
/// `from`, so there is none exactly if all places between are under that fork. Downwards: `to` and the place before it
/// are both under the cable; some edge of the tree descends it if and only if the tree's root is not under it. So there
/// is none exactly if the root is under the fork before `to`.
pub(super) fn may_pass(forks: &[Fork], from: usize, to: usize) -> bool {
    to - 1 <= forks[from].last && forks[to - 1].first <= from + 1
}

impl Line {
    /// Walks the switches from the root's, those right below a switch in the order of [`order`]; members on one switch
    /// come by host id, the root first of all. Linear in hosts, and S·log S for S switches.
    pub fn new(topology: &Topology, root_host: usize, members: &[usize]) -> Result<Self, PlanError> {
        let rank_of = rank_hosts(topology, members)?;
        let root = rank_of.get(root_host).copied().flatten().ok_or(PlanError::RootNotMember { host: root_host })?;
        let start = topology.switch_of(root_host);
        let onward = order::onward(topology, start, |host| rank_of[host].is_some());
        let ranks_on = |switch| topology.hosts_on(switch).filter_map(|host| rank_of[host]).filter(|&rank| rank != root);
        Ok(Self::walk(root, start, &onward, ranks_on))
    }

    /// Walks from the switch `start` to those `onward` gives; `ranks_on` gives the ranks on a switch, without the root.
    fn walk<Ranks: Iterator<Item = usize>>(
        root: usize,
        start: usize,
        onward: &[Vec<usize>],
        ranks_on: impl Fn(usize) -> Ranks,
    ) -> Self {
        let mut line = Self { ranks: vec![root], visits: Vec::new(), visit_of_place: vec![0] };
        let mut stack = vec![(start, 0)];
        // A stack of its own, for a row of switches may be thousands long.
        while let Some((switch, above)) = stack.pop() {
            let visit = line.visits.len();
            let first = if visit == 0 { 0 } else { line.ranks.len() };
            line.ranks.extend(ranks_on(switch));
            line.visit_of_place.resize(line.ranks.len(), visit);
            line.visits.push(Visit { above, first, end: line.ranks.len() });
            stack.extend(onward[switch].iter().rev().map(|&next| (next, visit)));
        }
        // Later visits end later, and all below a switch come after it.
        for visit in (1..line.visits.len()).rev() {
            let (above, end) = (line.visits[visit].above, line.visits[visit].end);
            line.visits[above].end = line.visits[above].end.max(end);
        }
        line
    }

    /// The fork between each place and the next. Linear: together these ways cross every cable at most once upwards.
    pub fn forks(&self) -> Vec<Fork> {
        let fork_before = |next: usize| {
            let mut visit = self.visit_of_place[next - 1];
            while self.visits[visit].end <= next {
                visit = self.visits[visit].above;
            }
            Fork { first: self.visits[visit].first, last: self.visits[visit].end - 1 }
        };
        (1..self.ranks.len()).map(fork_before).collect()
    }

    /// The plan in which each place but the first receives from the place `parents` gives it; a place sends to its
    /// children in the order of their places.
    pub fn plan(&self, via: Via, parents: &[usize]) -> Result<Plan, PlanError> {
        let mut children = vec![Vec::new(); self.ranks.len()];
        for (place, &parent) in parents.iter().enumerate().skip(1) {
            children[self.ranks[parent]].push(self.ranks[place]);
        }
        Plan::from_children(via, self.ranks[0], &children)
    }
}

/// The rank of every host of the topology, if it is a member.
pub(super) fn rank_hosts(topology: &Topology, members: &[usize]) -> Result<Vec<Option<usize>>, PlanError> {
    let hosts = topology.hosts().len();
    let mut rank_of = vec![None; hosts];
    for (rank, &host) in members.iter().enumerate() {
        match rank_of.get_mut(host) {
            None => return Err(PlanError::NoSuchHost { host, hosts }),
            Some(Some(_)) => return Err(PlanError::MemberTwice { host }),
            Some(free) => *free = Some(rank),
        }
    }
    Ok(rank_of)
}

#[cfg(test)]
mod tests {
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
        // n8 may pass n9 and n0 on its way to n16, but not n16 and n17 on its way to n24: both ways use s2 to s3.
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

    /// The height of the lowest binary tree over a line whose switches are visited as `onward` says, over the members
    /// on some switches.
    fn height(topology: &Topology, root_host: usize, onward: &[Vec<usize>], takes_part: impl Fn(usize) -> bool) -> usize {
        let on = |switch: usize| topology.hosts_on(switch).filter(move |&host| host != root_host);
        let ranks_on = |switch| on(switch).take(if takes_part(switch) { usize::MAX } else { 0 });
        let line = Line::walk(root_host, topology.switch_of(root_host), onward, ranks_on);
        let parents = layers::parents(&line.forks(), 2);
        let mut depths = vec![0; parents.len()];
        (1..parents.len()).for_each(|place| depths[place] = depths[parents[place]] + 1);
        depths.into_iter().max().expect("the root has a depth")
    }

    /// The switches from the root's to `to`.
    fn way(topology: &Topology, from: usize, to: usize, came_from: Option<usize>) -> Option<Vec<usize>> {
        if from == to {
            return Some(vec![to]);
        }
        let onward = topology.neighbours(from).iter().filter(|&&next| Some(next) != came_from);
        let rest = onward.filter_map(|&next| way(topology, next, to, Some(from))).next()?;
        Some([from].into_iter().chain(rest).collect())
    }

    /// The visits in an order of chance.
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

        /// The bound that the bench of Figure 5 shows.
        #[test]
        fn no_order_of_visits_saves_what_the_switches_along_one_way_take(
            topology in arbitrary::topology(20, 80),
            root in any::<prop::sample::Index>(),
            end in any::<prop::sample::Index>(),
            seed in any::<u64>(),
        ) {
            let root_host = root.index(topology.hosts().len());
            let start = topology.switch_of(root_host);
            let onward = order::onward(&topology, start, |_| true);
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
            let onward = order::onward(&topology, topology.switch_of(root_host), |_| true);
            let lowest = height(&topology, root_host, &onward, |_| true);
            for seed in (seed..=u64::MAX).take(10) {
                let other = height(&topology, root_host, &shuffled(&onward, seed), |_| true);
                prop_assert!(other + 1 >= lowest, "{} {}\n{}", other, lowest, topology.to_toml());
            }
        }
    }
}
