//! Search, within a time limit, for binary broadcast trees lower than those of Patarasuk 2008,
//! Algorithm 2.
//!
//! Algorithm 2 finds the tree over one line of the hosts, that of one depth-first search, and every
//! sub-tree is a run of it. Two searches try alternatives, and the lower tree is taken:
//! - other **orders of children**: Algorithm 2 over lines that visit the switches below a switch in
//!   other orders;
//! - other **lines**, or none at all ([`Levels`]): trees built level by level, in which every host
//!   sends to hosts that it can reach over unused cables.
//!
//! Both use one fixed sequence of numbers on every host, a bounded number of steps and no clock:
//! equal input gives equal plans.

use super::Speeds;
use super::binary::binary_sparing;
use super::line::Line;
use super::tree::Plan;
use super::via::Via;
use super::{PlanError, layers};
use crate::topology::{Topology, Walk};

/// Limit of places laid out in trials of orders: some 0.1 s.
const MAX_PLACES: usize = 50_000;
const MAX_ORDERS: usize = 400;

/// Plans the lowest contention-free binary tree that the search finds over `members` (host ids; a
/// member's rank is its index) from the member `root_host`; never a higher one than
/// [`binary`](super::binary()).
///
/// # Errors
/// The errors of [`chain`](super::chain()).
pub fn binary_best(
    topology: &Topology,
    root_host: usize,
    members: &[usize],
    speeds: Option<&Speeds>,
) -> Result<Plan, PlanError> {
    let mut best = binary_sparing(topology, root_host, members, speeds)?;
    let least = members.len().ilog2() as usize;
    let mut dice = Dice::new();
    for _ in 0..(MAX_PLACES / members.len()).min(MAX_ORDERS) {
        if best.height() == least {
            break;
        }
        let mut line = Line::reordered(topology, root_host, members, speeds, |onward| {
            dice.shuffle(onward)
        })?;
        let parents = layers::parents(&line.forks(), 2);
        line.spare_slow_hosts(topology, &parents, members, speeds);
        let plan = line.plan(Via::Binary, &parents)?;
        best = if plan.height() < best.height() {
            plan
        } else {
            best
        };
    }
    let mut levels = Levels::new(topology, members, best.root());
    while best.height() > least
        && let Some(children) = levels.within(best.height() - 1, &mut dice)
    {
        best = Plan::from_children(Via::Binary, best.root(), &children)?;
    }
    let children: Vec<Vec<usize>> = (0..best.ranks())
        .map(|rank| best.children(rank).to_vec())
        .collect();
    Plan::from_children(Via::BinaryBest, best.root(), &children)
}

struct Dice(u64);

impl Dice {
    fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.below(end + 1));
        }
    }
}

/// Limit of switches visited per height tried: some 0.05 s.
const MAX_LOOKS: usize = 1_000_000;

/// Weights of a remote switch without a host of the tree, relative to one with such a host. Each
/// attempt uses another weight.
const WEIGHTS: [usize; 4] = [1, 4, 16, 64];

/// The search. Hosts of one switch are interchangeable, except the root.
struct Levels<'a> {
    topology: &'a Topology,
    root: usize,
    switch_of: Vec<usize>,
    ranks_on: Vec<Vec<usize>>,
    above: Vec<Option<usize>>,
}

struct Attempt {
    children: Vec<Vec<usize>>,
    left_on: Vec<Vec<usize>>,
    left: usize,
    /// Sender that owns each cable upwards, and downwards, by the switch at its lower end.
    owners: [Vec<Option<usize>>; 2],
}

impl<'a> Levels<'a> {
    pub fn new(topology: &'a Topology, members: &[usize], root: usize) -> Self {
        let switch_of: Vec<usize> = members
            .iter()
            .map(|&host| topology.switch_of(host))
            .collect();
        let mut ranks_on = vec![Vec::new(); topology.switches().len()];
        (0..members.len())
            .filter(|&rank| rank != root)
            .for_each(|rank| ranks_on[switch_of[rank]].push(rank));
        Self {
            topology,
            root,
            switch_of,
            ranks_on,
            above: Walk::from(topology, 0).above().to_vec(),
        }
    }

    /// Returns the children of every rank in a tree of at most this height; `None` if none was
    /// found.
    pub fn within(&mut self, height: usize, dice: &mut Dice) -> Option<Vec<Vec<usize>>> {
        let mut looks = 0;
        let mut attempts = 0;
        while looks < MAX_LOOKS {
            let weight = WEIGHTS[attempts % WEIGHTS.len()];
            attempts += 1;
            if let Some(children) = self.attempt(height, weight, dice, &mut looks) {
                return Some(children);
            }
        }
        None
    }

    fn attempt(
        &self,
        height: usize,
        weight: usize,
        dice: &mut Dice,
        looks: &mut usize,
    ) -> Option<Vec<Vec<usize>>> {
        let (ranks, switches) = (self.switch_of.len(), self.ranks_on.len());
        let mut tree = Attempt {
            children: vec![Vec::new(); ranks],
            left_on: self.ranks_on.clone(),
            left: ranks - 1,
            owners: [vec![None; switches], vec![None; switches]],
        };
        let mut level = vec![self.root];
        for below in (0..height).rev() {
            // Room is limited to a full binary tree below each child of this level.
            let room = level
                .len()
                .saturating_mul(2)
                .saturating_mul((1usize << (below + 1).min(40)) - 1);
            if tree.left == 0 || tree.left > room {
                break;
            }
            dice.shuffle(&mut level);
            let mut next = Vec::with_capacity(2 * level.len());
            for _ in 0..2 {
                for &sender in &level {
                    if let Some(switch) = self.choose(&tree, sender, weight, dice, looks) {
                        next.push(self.send(&mut tree, sender, switch));
                    }
                }
            }
            level = next;
        }
        (tree.left == 0).then_some(tree.children)
    }

    /// Chooses at random a reachable switch with unserved ranks. Those with many are more likely,
    /// and those without a host of the tree more so.
    fn choose(
        &self,
        tree: &Attempt,
        sender: usize,
        weight: usize,
        dice: &mut Dice,
        looks: &mut usize,
    ) -> Option<usize> {
        let home = self.switch_of[sender];
        let mut waiting = vec![(home, None)];
        let (mut total, mut chosen) = (0, None);
        while let Some((switch, from)) = waiting.pop() {
            *looks += 1;
            let left = tree.left_on[switch].len();
            let is_new = left > 0 && switch != home && left == self.ranks_on[switch].len();
            let chance = if is_new { left * weight } else { left };
            total += chance;
            if chance > 0 && dice.below(total) < chance {
                chosen = Some(switch);
            }
            let onward = self
                .topology
                .neighbours(switch)
                .iter()
                .copied()
                .filter(|&next| Some(next) != from);
            let free = onward.filter(|&next| {
                self.owner(tree, switch, next)
                    .is_none_or(|owner| owner == sender)
            });
            waiting.extend(free.map(|next| (next, Some(switch))));
        }
        chosen
    }

    fn owner(&self, tree: &Attempt, from: usize, to: usize) -> Option<usize> {
        let (direction, lower) = self.direction(from, to);
        tree.owners[direction][lower]
    }

    fn direction(&self, from: usize, to: usize) -> (usize, usize) {
        if self.above[from] == Some(to) {
            (0, from)
        } else {
            (1, to)
        }
    }

    fn send(&self, tree: &mut Attempt, sender: usize, switch: usize) -> usize {
        let child = tree.left_on[switch]
            .pop()
            .expect("somebody is left on a switch that was chosen");
        tree.left -= 1;
        tree.children[sender].push(child);
        let walk = self.way(self.switch_of[sender], switch);
        for pair in walk.windows(2) {
            let (direction, lower) = self.direction(pair[0], pair[1]);
            tree.owners[direction][lower] = Some(sender);
        }
        child
    }

    fn way(&self, from: usize, to: usize) -> Vec<usize> {
        let up = |switch: usize| {
            Vec::from_iter(std::iter::successors(Some(switch), |&switch| {
                self.above[switch]
            }))
        };
        let (mut rising, mut falling) = (up(from), up(to));
        // Removes the common part above the meeting point.
        while rising.len() > 1
            && falling.len() > 1
            && rising[rising.len() - 2] == falling[falling.len() - 2]
        {
            rising.pop();
            falling.pop();
        }
        falling.pop();
        rising.extend(falling.into_iter().rev());
        rising
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{binary, check};
    use crate::topology::arbitrary;
    use proptest::prelude::*;

    #[test]
    fn a_tree_can_be_lower_than_any_over_a_depth_first_line() {
        let text = "schema = 1\nswitch = [{name='s0', hosts='n[4-5]', links=['s1']}, {name='s1', hosts='n2', \
     links=['s2']}, \
                {name='s2', hosts=['n[0-1]', 'n3']}]\n";
        let row = Topology::parse(text, "row").expect("a row");
        let all: Vec<usize> = (0..6).collect();
        let by_algorithm_2 = binary(&row, 4, &all).expect("all hosts");
        let best = binary_best(&row, 4, &all, None).expect("all hosts");
        assert_eq!((by_algorithm_2.height(), best.height()), (3, 2));
        let report = check(&row, &best, &all);
        assert!(report.is_good(), "{report}");
        assert_eq!(
            (best.via(), best.root(), best.degree()),
            (Via::BinaryBest, 4, 2)
        );
        assert_eq!(
            best,
            binary_best(&row, 4, &all, None).expect("all hosts"),
            "the same every time"
        );
    }

    #[test]
    fn a_complete_tree_is_left_as_it_is() {
        let bed = Topology::builtin("fig9-1").expect("fig9-1");
        let all: Vec<usize> = (0..16).collect();
        assert_eq!(
            binary_best(&bed, 3, &all, None)
                .expect("all hosts")
                .height(),
            4
        );
        assert_eq!(
            binary_best(&bed, 3, &[3], None).expect("one host").height(),
            0
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_best_tree_is_never_higher_and_never_contends(
            topology in arbitrary::topology(8, 24), root in any::<prop::sample::Index>(),
        ) {
            let all: Vec<usize> = (0..topology.hosts().len()).collect();
            let root_host = root.index(all.len());
            let best = binary_best(&topology, root_host, &all, None).expect("all hosts");
            let report = check(&topology, &best, &all);
            prop_assert!(report.is_good(), "{}\n{}", report, topology.to_toml());
            prop_assert!(best.height() <= binary(&topology, root_host, &all).expect("all hosts").height());
            prop_assert_eq!((best.root(), best.degree() <= 2), (root_host, true));
        }
    }
}
