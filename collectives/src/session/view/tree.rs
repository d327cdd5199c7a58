//! The broadcast tree in a transfer's member list: who sends to whom, and who acknowledges to whom.

use super::View;
use ethbcast_planning::plan::{self, Via};
use ethbcast_transport::planted;
use ethbcast_transport::wire::Rank;

/// The tree of one stream. A member that is not in place is bridged: its nearest ancestor in place serves its children.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Tree<'a> {
    view: &'a View,
    /// Number of a block, each of which has its own tree; `None` for the tree that the view names.
    block: Option<usize>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(view: &'a View) -> Tree<'a> {
        Tree { view, block: None }
    }

    pub(super) fn of_block(view: &'a View, block: usize) -> Tree<'a> {
        Tree { view, block: Some(block) }
    }

    fn planned_parent(&self, rank: Rank) -> Option<Rank> {
        let View { via, members, .. } = self.view;
        match self.block {
            Some(1) if *via == Via::TwoTree => members[rank.index()].parent.map(|_| Rank(members[rank.index()].order)),
            Some(block) if via.is_scattered() => {
                let parent = plan::block_parent(*via, members.len(), block, rank.index());
                parent.map(|parent| Rank(parent as u16))
            }
            _ => members[rank.index()].parent,
        }
    }

    fn order(&self, rank: Rank) -> usize {
        let View { via, members, .. } = self.view;
        match (self.block, self.planned_parent(rank)) {
            // The child with the most steps below it is served first.
            (Some(_), _) if *via == Via::TwoTree => members.len() - self.steps_below(rank),
            (Some(block), Some(parent)) => {
                let siblings = plan::block_children(*via, members.len(), block, parent.index());
                siblings.iter().position(|&sibling| sibling == rank.index()).unwrap_or(0)
            }
            _ => usize::from(members[rank.index()].order),
        }
    }

    fn steps_below(&self, rank: Rank) -> usize {
        let all = (0..self.view.members.len() as u16).map(Rank);
        let line = |from: Rank| std::iter::successors(Some(from), |&at| self.planned_parent(at));
        all.filter_map(|from| line(from).position(|at| at == rank)).max().unwrap_or(0)
    }

    fn planned_children(&self, block: usize, rank: Rank) -> Vec<Rank> {
        let View { via, members, .. } = self.view;
        if via.is_scattered() {
            let children = plan::block_children(*via, members.len(), block, rank.index());
            return children.into_iter().map(|child| Rank(child as u16)).collect();
        }
        let all = (0..members.len() as u16).map(Rank);
        all.filter(|&child| self.planned_parent(child) == Some(rank)).collect()
    }

    /// Returns the nearest planned ancestor of `rank` that is in place. `None` for the root, and for a member that is
    /// not in place itself.
    pub(in crate::session) fn parent(&self, rank: Rank) -> Option<Rank> {
        let mut at = self.planned_parent(rank)?;
        while !self.view.members[at.index()].is_in_place() {
            at = self.planned_parent(at)?;
        }
        self.view.members[rank.index()].is_in_place().then_some(at)
    }

    /// Returns the members that `rank` sends to, in sending order; in a broadcast, those that acknowledge to it.
    pub(in crate::session) fn children(&self, rank: Rank) -> Vec<Rank> {
        let mut children: Vec<Rank> = match self.block {
            Some(block) => self.children_in_block(block, rank),
            None => {
                let parent =
                    |child| if planted!("bridge-forgotten") { self.planned_parent(child) } else { self.parent(child) };
                self.view.ranks().filter(|&child| parent(child) == Some(rank)).collect()
            }
        };
        children.sort_by_cached_key(|&child| (self.order(child), child));
        children
    }

    /// Planned children in place; those of a child that is not in place take its position.
    fn children_in_block(&self, block: usize, rank: Rank) -> Vec<Rank> {
        let (mut found, mut open) = (Vec::new(), vec![rank]);
        while let Some(at) = open.pop() {
            for child in self.planned_children(block, at) {
                let in_place = self.view.members[child.index()].is_in_place();
                if in_place { &mut found } else { &mut open }.push(child);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::Standing;
    use super::super::tests::chain;
    use ethbcast_planning::plan::Via;
    use ethbcast_transport::wire::Rank;

    #[test]
    fn two_trees_are_read_from_parents_and_orders_and_bridged_each() {
        let mut view = chain(7);
        view.via = Via::TwoTree;
        // First tree: 0 → 1 → (2, 3), 3 → (4, 5), 4 → 6; second tree: 0 → 6 → (5, 1), 5 → (4, 3), 3 → 2.
        let parents = [(0, 0), (0, 6), (1, 3), (1, 5), (3, 5), (3, 6), (4, 0)];
        for (member, (first, second)) in view.members.iter_mut().zip(parents).skip(1) {
            (member.parent, member.order) = (Some(Rank(first)), second);
        }
        let ranks = |ranks: &[u16]| ranks.iter().copied().map(Rank).collect::<Vec<_>>();
        let children = |view: &super::View, rank| [0, 1].map(|block| view.trees()[block].children(Rank(rank)));
        assert_eq!(super::View::decode(&view.encode()).as_ref(), Some(&view));
        assert_eq!(children(&view, 0), [ranks(&[1]), ranks(&[6])]);
        assert_eq!(children(&view, 1), [ranks(&[3, 2]), ranks(&[])], "the higher one first");
        view.members[3].standing = Standing::Gone;
        assert_eq!(children(&view, 1), [ranks(&[4, 2, 5]), ranks(&[])]);
        assert_eq!(
            (children(&view, 5), view.trees()[1].parent(Rank(2))),
            ([ranks(&[]), ranks(&[2, 4])], Some(Rank(5)))
        );
        assert!(view.serves(Rank(1), Rank(5)) && view.serves(Rank(6), Rank(5)) && !view.serves(Rank(3), Rank(5)));
        view.members[6].order = 1;
        assert_eq!(super::View::decode(&view.encode()), None, "1 and 6 are each other's parents");
        view.members[6].order = 7;
        assert_eq!(super::View::decode(&view.encode()), None, "there is no rank 7");
    }

    #[test]
    fn when_a_relay_leaves_its_parent_takes_over_its_children() {
        let mut view = chain(5);
        assert_eq!(view.trees()[0].children(Rank(1)), [Rank(2)]);
        view.members[2].standing = Standing::Gone;
        view.members[3].standing = Standing::Gone;
        let tree = &view.trees()[0];
        assert_eq!(
            (tree.children(Rank(1)), tree.parent(Rank(4)), tree.parent(Rank(3))),
            (vec![Rank(4)], Some(Rank(1)), None)
        );
    }

    #[test]
    fn every_block_has_a_tree_that_reaches_all_who_are_present() {
        for (via, members) in [(Via::ScatterAllgather, 7), (Via::RecursiveDoubling, 8), (Via::RecursiveDoubling, 6)] {
            let mut view = chain(members);
            view.via = via;
            view.members[3].standing = Standing::Gone;
            let trees = view.trees();
            assert_eq!(trees.len(), usize::from(members));
            for tree in trees {
                for rank in view.ranks().filter(|&rank| rank != Rank::ROOT) {
                    let parent = tree.parent(rank).expect("everybody but the root has a parent");
                    assert!(tree.children(parent).contains(&rank), "{via}: {parent} serves {rank}");
                }
            }
        }
    }
}
