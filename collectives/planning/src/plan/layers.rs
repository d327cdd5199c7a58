//! Search for the lowest broadcast tree with up to K children per host whose sends never share a
//! cable. For each height it computes how far a tree reaches.
//!
//! The members stand in a line (see [`line`](super::line)). A tree over a run of places has the
//! first of them as root; its sub-trees are over consecutive runs. For the children c₁ < c₂ < … of
//! place `i` the conditions of §4.1.2 against contention are equivalent to two conditions on the
//! spans of forks, as in [`may_pass`](super::line::may_pass): for every sub-tree but the last,
//! - it ends at or before the last place under the lowest switch above `i` and its own root, and
//! - its root is under the fork before the next child.
//!
//! Conditions on later children follow from these. A tree without its last place is a tree, so a
//! **reach** suffices: the last place that a tree of height h rooted at `i` can extend to. The
//! reaches of one height follow from those of the height below. The lowest tree has the least
//! height whose reach from place 0 is the last place.
//!
//! The reaches of one height come from [`Tables`] of one or more sub-trees in a row.
//!
//! The lowest switch above `i` and a child is the one of the fork behind `i` as long as the child
//! is under it, then the one of the fork behind that fork's last place, and so on. The places `i`
//! whose forks end at one place therefore form a **group** and share their tables. A height costs
//! O(K·N·log P), N being the lengths of all groups together: P times the number of switches above a
//! host that are not their parent's last, few in a usual network.

use super::line::{Fork, may_pass};

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
    let mut runs = Runs {
        reaches: vec![(0..=last).map(number).collect()],
        of_height: Vec::new(),
    };
    let most_heights = most_entries / tables.entries().max(1);
    while runs.longest(0) < last && runs.reaches.len() <= most_heights {
        tables.fill(&runs.reaches[runs.reaches.len() - 1]);
        runs.reaches.push(tables.reaches());
    }
    let mut parents = vec![0; last + 1];
    spine(forks, &mut runs, &mut parents);
    while let Some(runs_here) = runs.of_height.pop() {
        let below = runs
            .of_height
            .len()
            .checked_sub(1)
            .map(|below| runs.reaches[below].clone());
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
/// A tree that reaches the last place is the whole result. Otherwise a place of the path sends
/// to the next place, and to the last place it can pass to beyond the tree there, which is the next
/// place of the path. This is never more than P/2 steps.
fn spine(forks: &[Fork], runs: &mut Runs, parents: &mut [usize]) {
    let last = forks.len();
    let mut root = 0;
    while runs.longest(root) < last {
        let limit = (runs.longest(root + 1) + 1).min(last);
        let next = (root + 2..=limit)
            .rev()
            .find(|&next| may_pass(forks, root, next));
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
        let height = self
            .reaches
            .partition_point(|reach| (reach[root] as usize) < last);
        if self.of_height.len() <= height {
            self.of_height.resize(height + 1, Vec::new());
        }
        self.of_height[height].push((root, last));
    }

    fn longest(&self, root: usize) -> usize {
        self.reaches[self.reaches.len() - 1][root] as usize
    }
}

/// Places `first..=last` behind forks that end at one place.
struct Group {
    first: usize,
    last: usize,
    offset: usize,
}

/// Reach of up to `most_children` consecutive sub-trees.
struct Tables<'a> {
    forks: &'a [Fork],
    most_children: usize,
    groups: Vec<Group>,
    group_behind: Vec<usize>,
    begins: Vec<Vec<usize>>,
    /// Values by group, number of children and place of the group: the reach of that many
    /// sub-trees, the first rooted at that place, below any place whose fork is the group's. Empty
    /// until [`Tables::fill`].
    values: Vec<u32>,
    maxima: Maxima,
}

impl<'a> Tables<'a> {
    pub fn new(forks: &'a [Fork], most_children: usize) -> Self {
        let mut first_of = vec![None; forks.len() + 1];
        for (place, fork) in forks.iter().enumerate() {
            first_of[fork.last].get_or_insert(place + 1);
        }
        let mut groups: Vec<Group> = Vec::new();
        let mut group_at = vec![0; forks.len() + 1];
        let mut offset = 0;
        for last in (0..=forks.len()).rev() {
            if let Some(first) = first_of[last] {
                group_at[last] = groups.len();
                groups.push(Group {
                    first,
                    last,
                    offset,
                });
                offset += (last + 1 - first) * most_children;
            }
        }
        let mut begins = vec![Vec::new(); forks.len() + 1];
        forks
            .iter()
            .enumerate()
            .for_each(|(place, fork)| begins[fork.first].push(place + 1));
        let group_behind = forks.iter().map(|fork| group_at[fork.last]).collect();
        Self {
            forks,
            most_children,
            groups,
            group_behind,
            begins,
            values: Vec::new(),
            maxima: Maxima::default(),
        }
    }

    fn index(&self, group: &Group, children: usize, root: usize) -> usize {
        group.offset + (children - 1) * (group.last + 1 - group.first) + root - group.first
    }

    /// Returns the reach of `children` sub-trees of `parent` that begin at `root`, which is under
    /// the fork behind `parent`, or the place after it.
    fn value(&self, group: usize, children: usize, root: usize) -> u32 {
        let group = &self.groups[group];
        let group = if root <= group.last {
            group
        } else {
            &self.groups[self.group_behind[group.last]]
        };
        self.values[self.index(group, children, root)]
    }

    pub fn reaches(&self) -> Vec<u32> {
        let last = self.forks.len();
        let reach =
            |place: usize| self.value(self.group_behind[place], self.most_children, place + 1);
        (0..last).map(reach).chain([number(last)]).collect()
    }

    pub fn entries(&self) -> usize {
        self.groups
            .iter()
            .map(|group| (group.last + 1 - group.first) * self.most_children)
            .sum()
    }

    pub fn fill(&mut self, reaches: &[u32]) {
        self.values.resize(self.entries(), 0);
        for group in 0..self.groups.len() {
            let Group {
                first,
                last,
                offset,
            } = self.groups[group];
            self.values[offset..offset + last + 1 - first].copy_from_slice(&reaches[first..=last]);
            for children in 2..=self.most_children {
                self.fill_row(group, children, reaches);
            }
        }
    }

    fn fill_row(&mut self, group: usize, children: usize, reaches: &[u32]) {
        let Group { first, last, .. } = self.groups[group];
        // The next child is a place of the group or, if it exists, the place after it.
        let end = (last + 1).min(self.forks.len());
        let mut maxima = std::mem::take(&mut self.maxima);
        maxima.set((first..end + 1).map(|next| self.value(group, children - 1, next)));
        for root in (first..=last).rev() {
            // Places whose fork begins after `root` cannot be next.
            if let Some(gone) = self.begins.get(root + 1) {
                gone.iter()
                    .filter(|&&next| next <= end)
                    .for_each(|&next| maxima.clear(next - first));
            }
            let limit = (reaches[root] as usize + 1).min(end);
            let further = maxima.greatest(root + 1 - first, limit + 1 - first);
            let index = self.index(&self.groups[group], children, root);
            self.values[index] = further.max(reaches[root]);
        }
        self.maxima = maxima;
    }

    /// Divides the run from `root` to `last` among children of `root`, as evenly as the tables
    /// allow.
    pub fn divide(
        &self,
        reaches: &[u32],
        root: usize,
        last: usize,
        parents: &mut [usize],
        runs: &mut Runs,
    ) {
        let mut group = self.group_behind[root];
        let (mut child, mut left) = (root + 1, self.most_children);
        loop {
            parents[child] = root;
            let next = self.next_child(group, reaches, child, last, left);
            runs.push(child, next.map_or(last, |next| next - 1));
            let Some(next) = next else { break };
            if next > self.groups[group].last {
                group = self.group_behind[self.groups[group].last];
            }
            (child, left) = (next, left - 1);
        }
    }

    /// Returns the place nearest to an even division at which the sub-tree after `child` can begin;
    /// the later of two equally near. `None` if `child` must be, or can only be, the last of them.
    fn next_child(
        &self,
        group: usize,
        reaches: &[u32],
        child: usize,
        last: usize,
        left: usize,
    ) -> Option<usize> {
        if left == 1 || child == last {
            return None;
        }
        let limit = last
            .min(self.groups[group].last + 1)
            .min(reaches[child] as usize + 1);
        let fits = |next: &usize| {
            self.forks[next - 1].first <= child
                && self.value(group, left - 1, *next) as usize >= last
        };
        let even = (child + (last + 1 - child).div_ceil(left)).clamp(child + 1, limit);
        let later = (even..=limit).find(fits);
        let earlier = (child + 1..even).rev().find(fits);
        match (earlier, later) {
            (Some(earlier), Some(later)) => Some(if even - earlier < later - even {
                earlier
            } else {
                later
            }),
            (earlier, later) => earlier.or(later),
        }
    }
}

/// Numbers that may be cleared, with range maximum; both in logarithmic time.
#[derive(Default)]
struct Maxima {
    /// A complete binary tree in an array: the numbers in the second half, every other entry the
    /// greater of its two.
    tree: Vec<u32>,
}

impl Maxima {
    pub fn set(&mut self, numbers: impl ExactSizeIterator<Item = u32>) {
        let count = numbers.len();
        self.tree.clear();
        self.tree.resize(count, 0);
        self.tree.extend(numbers);
        for entry in (1..count).rev() {
            self.tree[entry] = self.tree[2 * entry].max(self.tree[2 * entry + 1]);
        }
    }

    pub fn clear(&mut self, index: usize) {
        let mut entry = index + self.tree.len() / 2;
        self.tree[entry] = 0;
        while entry > 1 {
            entry /= 2;
            self.tree[entry] = self.tree[2 * entry].max(self.tree[2 * entry + 1]);
        }
    }

    /// Returns the greatest number in `from..to`; 0 if the range is empty.
    pub fn greatest(&self, from: usize, to: usize) -> u32 {
        let count = self.tree.len() / 2;
        let (mut low, mut high, mut greatest) = (from + count, to + count, 0);
        while low < high {
            if low % 2 == 1 {
                greatest = greatest.max(self.tree[low]);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                greatest = greatest.max(self.tree[high]);
            }
            (low, high) = (low / 2, high / 2);
        }
        greatest
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

    #[test]
    fn maxima_are_those_of_what_is_left() {
        let mut maxima = Maxima::default();
        maxima.set([3, 9, 4, 7, 5].into_iter());
        assert_eq!(
            [
                maxima.greatest(0, 5),
                maxima.greatest(2, 5),
                maxima.greatest(4, 5),
                maxima.greatest(3, 3)
            ],
            [9, 7, 5, 0]
        );
        maxima.clear(1);
        maxima.clear(3);
        assert_eq!(
            [
                maxima.greatest(0, 5),
                maxima.greatest(1, 2),
                maxima.greatest(0, 3)
            ],
            [5, 0, 4]
        );
    }
}
