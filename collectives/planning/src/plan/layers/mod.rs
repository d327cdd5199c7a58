//! Search for the lowest contention-free tree with up to K children: computes how many hosts a tree
//! of each height can cover (its reach).
//!
//! A tree over a run of places has the first of them as root; its sub-trees are over consecutive runs. For the children
//! c₁ < c₂ < … of place `i` the precautions of §4.1.2 are equivalent to two conditions on the spans of forks,
//! as in [`may_pass`](super::line::may_pass): for every sub-tree but the last,
//! - it ends at or before the last place under the lowest switch above `i` and its own root, and
//! - its root is under the fork before the next child.
//!
//! Conditions on later children follow from these. A tree without its last place is a tree, so a **reach** suffices:
//! the last place that a tree of height h rooted at `i` can extend to. The reaches of one height follow from those of
//! the height below; the least height whose reach from place 0 is the last place is the height of the lowest tree.
//!
//! The reaches of one height come from [`tables`] of one or more sub-trees in a row.

mod maxima;
mod tables;

use super::line::{Fork, may_pass};
use tables::Tables;

/// Limit of table entries over all heights, at some 30 instructions each; beyond, see [`spine`].
const MAX_ENTRIES: usize = 1 << 24;

/// Returns the parent of each place but the first (which is given 0) in a contention-free tree with
/// up to `most_children` children.
///
/// The tree is the lowest among those with contiguous runs, unless the search would take more than
/// [`MAX_ENTRIES`]: then the root sends along a [`spine`].
pub(super) fn parents(forks: &[Fork], most_children: usize) -> Vec<usize> {
    parents_within(forks, most_children, MAX_ENTRIES)
}

fn parents_within(forks: &[Fork], most_children: usize, most_entries: usize) -> Vec<usize> {
    let mut tables = Tables::new(forks, most_children);
    let last = forks.len();
    let mut runs = Runs { reaches: vec![(0..=last).map(number).collect()], of_height: Vec::new() };
    let most_heights = most_entries / tables.entries().max(1);
    while runs.longest(0) < last && runs.reaches.len() <= most_heights {
        tables.fill(&runs.reaches[runs.reaches.len() - 1]);
        runs.reaches.push(tables.reaches());
    }
    let mut parents = vec![0; last + 1];
    spine(forks, &mut runs, &mut parents);
    while let Some(runs_here) = runs.of_height.pop() {
        let below = runs.of_height.len().checked_sub(1).map(|below| runs.reaches[below].clone());
        if let (Some(below), false) = (below, runs_here.is_empty()) {
            tables.fill(&below);
            for (root, last) in runs_here {
                tables.divide(&below, root, last, &mut parents, &mut runs);
            }
        }
    }
    parents
}

/// Converts a place to 32 bits, which halves the tables.
fn number(place: usize) -> u32 {
    u32::try_from(place).expect("a topology has at most 1 Mi hosts")
}

/// Hangs the longest trees found on a path from place 0 to the last place.
///
/// If one tree reaches the last place, it is all. Otherwise a place of the path sends to the next
/// place, and to the last place it can pass to beyond the tree there, which is the next place of
/// the path. This is never more than P/2 steps.
fn spine(forks: &[Fork], runs: &mut Runs, parents: &mut [usize]) {
    let last = forks.len();
    let mut root = 0;
    while runs.longest(root) < last {
        let limit = (runs.longest(root + 1) + 1).min(last);
        let next = (root + 2..=limit).rev().find(|&next| may_pass(forks, root, next));
        parents[root + 1] = root;
        match next {
            Some(next) => {
                parents[next] = root;
                runs.push(root + 1, next - 1);
                root = next;
            }
            None => root += 1,
        }
    }
    runs.push(root, last);
}

struct Runs {
    reaches: Vec<Vec<u32>>,
    of_height: Vec<Vec<(usize, usize)>>,
}

impl Runs {
    fn push(&mut self, root: usize, last: usize) {
        let height = self.reaches.partition_point(|reach| (reach[root] as usize) < last);
        if self.of_height.len() <= height {
            self.of_height.resize(height + 1, Vec::new());
        }
        self.of_height[height].push((root, last));
    }

    fn longest(&self, root: usize) -> usize {
        self.reaches[self.reaches.len() - 1][root] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::line::Line;
    use crate::plan::{Via, check};
    use crate::topology::arbitrary;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_search_that_is_cut_short_still_ends_in_a_tree_free_of_contention(
            topology in arbitrary::topology(16, 40),
            root in any::<prop::sample::Index>(),
            most_children in 2usize..6,
            most_entries in 0usize..600,
        ) {
            let all: Vec<usize> = (0..topology.hosts().len()).collect();
            let line = Line::new(&topology, root.index(all.len()), &all).expect("all hosts");
            let forks = line.forks();
            let plan = line.plan(Via::Binomial, &parents_within(&forks, most_children, most_entries)).expect("a tree");
            let report = check(&topology, &plan, &all);
            prop_assert!(report.is_good(), "{}\n{}", report, topology.to_toml());
            prop_assert!(plan.degree() <= most_children && plan.height() <= all.len().div_ceil(2));
            let lowest = line.plan(Via::Binomial, &parents(&forks, most_children)).expect("a tree").height();
            prop_assert!(plan.height() >= lowest);
        }
    }
}
