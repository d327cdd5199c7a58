//! Members in the order of a depth-first walk over the switches: the input of all planners that
//! know the switches.
//!
//! A **place** is a position in that order; place 0 is the root (m₀, m₁, … in Patarasuk 2008
//! §4.1.2).
//!
//! # Chains
//! [`chain`] plans the contention-free linear tree (Patarasuk 2008 §4.1.1, Algorithm 1).
//!
//! Switches are numbered in the order a depth-first search from the root's switch arrives at them; the chain visits the
//! hosts switch by switch in that order. The search walks every cable once in each direction, so no two hops of the
//! chain cross a cable in the same direction (Theorem 1). Leaving hosts out joins consecutive hops into one whose path
//! is part of theirs, so a chain over some of the hosts is contention-free too (Lemma 2).
//!
//! # Order of visits
//! The order in which the walk visits the children of a switch is left open by Algorithm 1.
//!
//! The order decides the height of a tree over the line. A rank on a switch can pass the runs below that switch only
//! whole, from the first on. Seen from the switch, the run visited last can hang one step down, the one before it
//! two, and so on. The height is least if the run that needs the most steps is visited last. This holds where every
//! switch has more hosts than switches below it, as in clusters. With two hosts per switch, runs must often be
//! reached through the run before. The opposite order would then be better, by a tenth on random trees of switches;
//! with four hosts it is worse.

use super::PlanError;
use super::speeds::{Speeds, USUAL};
use super::tree::Plan;
use super::via::Via;
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

/// Whether a send from place `from` to place `to` has no contention with a tree over the places between them. The
/// tree is rooted at the first of these, and its edges lead to later places. `forks[i]` is the fork between places
/// `i` and `i + 1`.
///
/// The result is that of line (17) of Figure 4, without a look at the tree. The send and the tree can meet only on
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
    /// [`onward`], members on one switch by host id, the root first of all. Linear in hosts, and
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
        let mut onward = onward(topology, start, speeds, |host| rank_of[host].is_some());
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

    /// Moves slow hosts to the places with the fewest children among those on their switch, to the
    /// last one if several are equal; the root stays. That changes no cable between switches.
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Below {
    steps: usize,
    members: usize,
}

impl Below {
    fn of(members_here: usize, next: impl DoubleEndedIterator<Item = Below> + Clone) -> Self {
        let members = members_here + next.clone().map(|below| below.members).sum::<usize>();
        let at_least = members.checked_ilog2().map_or(0, |steps| steps as usize);
        let hung = next.rev().filter(|below| below.members > 0).zip(1..).map(|(below, step)| below.steps + step);
        Self { steps: hung.fold(at_least, usize::max), members }
    }
}

/// Returns for every switch its neighbours away from `start`: those first that need the fewest
/// steps, then those with fewer members, then by id. Slow cables come last of all: fewer hosts wait
/// for a later visit.
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
        let slowness = |next: usize| speeds.map_or(USUAL, |speeds| speeds.cable(topology, switch, next));
        onward[switch].sort_unstable_by_key(|&next| (slowness(next), below[next], next));
        let members_here = topology.hosts_on(switch).filter(|&host| is_member(host)).count();
        below[switch] = Below::of(members_here, onward[switch].iter().map(|&next| below[next]));
    }
    onward
}

/// Plans a chain over `members` (host ids; a member's rank is its index), starting at the member `root_host`.
///
/// Switches, if the search has a choice, are visited by how many steps a tree over the members at and below them
/// takes, the fewest first, so that [`binary`](super::binary()), which starts from the same order, gets low trees; of
/// equals those with fewer members first, then by id. The members on one switch come by host id. Hosts that are not
/// members do not take part. Linear in hosts, and S·log S for S switches.
///
/// # Errors
/// [`PlanError`] if the root is no member, a member is no host of the topology, or a member is named twice.
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
    let before: Vec<usize> = (0..members.len()).map(|place| place.saturating_sub(1)).collect();
    line.spare_slow_hosts(&before, members, speeds);
    line.plan(Via::Chain, &before)
}

#[cfg(test)]
mod tests;
