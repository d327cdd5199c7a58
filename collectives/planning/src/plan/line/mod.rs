//! Members in the order of a depth-first walk over the switches: the input of all planners that
//! know the switches.
//!
//! A **place** is a position in that order; place 0 is the root (m₀, m₁, … in Patarasuk 2008
//! §4.1.2).

use super::error::PlanError;
use super::speeds::Speeds;
use super::tree::Plan;
use super::via::Via;
use crate::topology::Topology;

mod order;

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

/// Places under the switch where the path from one place to the next turns from up to down.
///
/// The switch is the lowest with both places under it. The span decides all contention between
/// sub-trees of a line: see [`may_pass`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fork {
    pub first: usize,
    pub last: usize,
}

/// Whether a send from place `from` to place `to` has no contention with a tree over the places
/// between them, any tree rooted at the first of them whose edges lead to later places; `forks[i]`
/// is the fork between places `i` and `i + 1`.
///
/// This is line (17) of Figure 4 without a look at the tree. The send and the tree can meet only on
/// cables between switches. Upwards: `from` and the next place, the tree's root, are both under the
/// cable; some edge of the tree climbs it if and only if one of its places is not under it. The
/// lowest such cable is the one above the fork behind `from`, so there is none exactly if all
/// places between are under that fork. Downwards: `to` and the place before it are both under the
/// cable; some edge of the tree descends it if and only if the tree's root is not under it. It
/// follows that there is none exactly if the root is under the fork before `to`.
pub(super) fn may_pass(forks: &[Fork], from: usize, to: usize) -> bool {
    to - 1 <= forks[from].last && forks[to - 1].first <= from + 1
}

impl Line {
    /// Walks the switches from the root's; those right below a switch come in the order of
    /// [`order`], members on one switch by host id, the root first of all. Linear in hosts, and
    /// S·log S for S switches.
    #[cfg(test)]
    pub fn new(topology: &Topology, root_host: usize, members: &[usize]) -> Result<Self, PlanError> {
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
        let root = rank_of.get(root_host).copied().flatten().ok_or(PlanError::RootNotMember(root_host))?;
        let start = topology.switch_of(root_host);
        let mut onward = order::onward(topology, start, speeds, |host| rank_of[host].is_some());
        onward.iter_mut().for_each(reorder);
        let ranks_on = |switch| topology.hosts_on(switch).filter_map(|host| rank_of[host]).filter(|&rank| rank != root);
        Ok(Self::walk(root, start, &onward, ranks_on))
    }

    fn walk<Ranks: Iterator<Item = usize>>(
        root: usize,
        start: usize,
        onward: &[Vec<usize>],
        ranks_on: impl Fn(usize) -> Ranks,
    ) -> Self {
        let mut line = Self { ranks: vec![root], visits: Vec::new(), visit_of_place: vec![0] };
        let mut stack = vec![(start, 0)];
        // An explicit stack, because a row of switches may be thousands long.
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

    /// Returns the fork between each place and the next. Linear: together these paths cross every
    /// cable at most once upwards.
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

    /// Moves slow hosts to the places with the fewest children among those on their switch, the
    /// last of equal ones; the root stays. That changes nothing on any cable between switches.
    pub fn spare_slow_hosts(&mut self, parents: &[usize], members: &[usize], speeds: Option<&Speeds>) {
        let Some(speeds) = speeds else { return };
        let mut children = vec![0usize; parents.len()];
        parents.iter().skip(1).for_each(|&parent| children[parent] += 1);
        let mut places_of = vec![Vec::new(); self.visits.len()];
        (1..self.ranks.len()).for_each(|place| places_of[self.visit_of_place[place]].push(place));
        for mut places in places_of {
            let mut ranks: Vec<usize> = places.iter().map(|&place| self.ranks[place]).collect();
            // Both sorts are stable, so equal hosts stay in place.
            ranks.sort_by_key(|&rank| speeds.sending(members[rank]));
            if ranks.first().map(|&rank| speeds.sending(members[rank]))
                == ranks.last().map(|&rank| speeds.sending(members[rank]))
            {
                continue;
            }
            places.sort_by_key(|&place| std::cmp::Reverse(children[place]));
            places.into_iter().zip(ranks).for_each(|(place, rank)| self.ranks[place] = rank);
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

pub(super) fn rank_hosts(topology: &Topology, members: &[usize]) -> Result<Vec<Option<usize>>, PlanError> {
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

#[cfg(test)]
mod tests;
