//! Search of low binary trees level by level. They are free of contention by construction: a cable belongs, in
//! each direction, to the first sender over it.

use super::Dice;
use crate::topology::{Topology, Walk};

/// Limit of switches visited per height tried: some 0.05 s.
const MAX_LOOKS: usize = 1_000_000;

/// Weights, in different attempts, of a remote switch without a host of the tree, relative to one
/// with such a host.
const WEIGHTS: [usize; 4] = [1, 4, 16, 64];

/// The search. Hosts of one switch are interchangeable, but for the root.
pub(super) struct Levels<'a> {
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
        let switch_of: Vec<usize> = members.iter().map(|&host| topology.switch_of(host)).collect();
        let mut ranks_on = vec![Vec::new(); topology.switches().len()];
        (0..members.len()).filter(|&rank| rank != root).for_each(|rank| ranks_on[switch_of[rank]].push(rank));
        Self { topology, root, switch_of, ranks_on, above: Walk::from(topology, 0).above().to_vec() }
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

    fn attempt(&self, height: usize, weight: usize, dice: &mut Dice, looks: &mut usize) -> Option<Vec<Vec<usize>>> {
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
            let room = level.len().saturating_mul(2).saturating_mul((1usize << (below + 1).min(40)) - 1);
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
            let onward = self.topology.neighbours(switch).iter().copied().filter(|&next| Some(next) != from);
            let free = onward.filter(|&next| self.owner(tree, switch, next).is_none_or(|owner| owner == sender));
            waiting.extend(free.map(|next| (next, Some(switch))));
        }
        chosen
    }

    fn owner(&self, tree: &Attempt, from: usize, to: usize) -> Option<usize> {
        let (direction, lower) = self.direction(from, to);
        tree.owners[direction][lower]
    }

    fn direction(&self, from: usize, to: usize) -> (usize, usize) {
        if self.above[from] == Some(to) { (0, from) } else { (1, to) }
    }

    fn send(&self, tree: &mut Attempt, sender: usize, switch: usize) -> usize {
        let child = tree.left_on[switch].pop().expect("somebody is left on a switch that was chosen");
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
        let up = |switch: usize| Vec::from_iter(std::iter::successors(Some(switch), |&switch| self.above[switch]));
        let (mut rising, mut falling) = (up(from), up(to));
        // Removes the common part above the meeting point.
        while rising.len() > 1 && falling.len() > 1 && rising[rising.len() - 2] == falling[falling.len() - 2] {
            rising.pop();
            falling.pop();
        }
        falling.pop();
        rising.extend(falling.into_iter().rev());
        rising
    }
}
