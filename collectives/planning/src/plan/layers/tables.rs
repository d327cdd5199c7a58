//! Tables of how many hosts consecutive sub-trees can cover, for the search for the lowest tree.
//!
//! The lowest switch above `i` and a child is the one of the fork behind `i` as long as the child
//! is under it, then the one of the fork behind that fork's last place, and so on. The places `i`
//! whose forks end at one place therefore form a **group** and share their tables. A height costs
//! O(K·N·log P), N being the lengths of all groups together: P times the number of switches above a
//! host that are not their parent's last, few in a usual network.

use super::maxima::Maxima;
use super::{Runs, number};
use crate::plan::line::Fork;

/// Places `first..=last` behind forks that end at one place.
struct Group {
    first: usize,
    last: usize,
    offset: usize,
}

/// Reach of up to `most_children` consecutive sub-trees.
pub(super) struct Tables<'a> {
    forks: &'a [Fork],
    most_children: usize,
    groups: Vec<Group>,
    group_behind: Vec<usize>,
    /// Places whose preceding fork begins at each place.
    begins: Vec<Vec<usize>>,
    /// Values by group, number of children and place of the group: the reach of that many sub-trees, the
    /// first rooted at that place, below any place whose fork is the group's. Empty until
    /// [`Tables::fill`].
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
                groups.push(Group { first, last, offset });
                offset += (last + 1 - first) * most_children;
            }
        }
        let mut begins = vec![Vec::new(); forks.len() + 1];
        forks.iter().enumerate().for_each(|(place, fork)| begins[fork.first].push(place + 1));
        let group_behind = forks.iter().map(|fork| group_at[fork.last]).collect();
        Self { forks, most_children, groups, group_behind, begins, values: Vec::new(), maxima: Maxima::default() }
    }

    fn index(&self, group: &Group, children: usize, root: usize) -> usize {
        group.offset + (children - 1) * (group.last + 1 - group.first) + root - group.first
    }

    /// Returns the reach of `children` sub-trees of `parent` that begin at `root`, which is under
    /// the fork behind `parent`, or the place after it.
    fn value(&self, group: usize, children: usize, root: usize) -> u32 {
        let group = &self.groups[group];
        let group = if root <= group.last { group } else { &self.groups[self.group_behind[group.last]] };
        self.values[self.index(group, children, root)]
    }

    pub fn reaches(&self) -> Vec<u32> {
        let last = self.forks.len();
        let reach = |place: usize| self.value(self.group_behind[place], self.most_children, place + 1);
        (0..last).map(reach).chain([number(last)]).collect()
    }

    pub fn entries(&self) -> usize {
        self.groups.iter().map(|group| (group.last + 1 - group.first) * self.most_children).sum()
    }

    pub fn fill(&mut self, reaches: &[u32]) {
        self.values.resize(self.entries(), 0);
        for group in 0..self.groups.len() {
            let Group { first, last, offset } = self.groups[group];
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
                gone.iter().filter(|&&next| next <= end).for_each(|&next| maxima.clear(next - first));
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
    pub fn divide(&self, reaches: &[u32], root: usize, last: usize, parents: &mut [usize], runs: &mut Runs) {
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
    fn next_child(&self, group: usize, reaches: &[u32], child: usize, last: usize, left: usize) -> Option<usize> {
        if left == 1 || child == last {
            return None;
        }
        let limit = last.min(self.groups[group].last + 1).min(reaches[child] as usize + 1);
        let fits =
            |next: &usize| self.forks[next - 1].first <= child && self.value(group, left - 1, *next) as usize >= last;
        let even = (child + (last + 1 - child).div_ceil(left)).clamp(child + 1, limit);
        let later = (even..=limit).find(fits);
        let earlier = (child + 1..even).rev().find(fits);
        match (earlier, later) {
            (Some(earlier), Some(later)) => Some(if even - earlier < later - even { earlier } else { later }),
            (earlier, later) => earlier.or(later),
        }
    }
}
