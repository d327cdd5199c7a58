//! Trees of a view: senders and their children; in a broadcast, the hosts that acknowledge to each.

use super::View;
use ethbcast_planning::plan;
use ethbcast_transport::planted;
use ethbcast_transport::wire::Rank;

/// The tree of one stream. A member that is not in place is bridged: its nearest ancestor in place
/// serves its children.
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
            Some(block) => {
                let parent = plan::block_parent(*via, members.len(), block, rank.index());
                parent.map(|parent| Rank(parent as u16))
            }
            None => members[rank.index()].parent,
        }
    }

    fn order(&self, rank: Rank) -> usize {
        let View { via, members, .. } = self.view;
        match (self.block, self.planned_parent(rank)) {
            (Some(block), Some(parent)) => {
                let siblings = plan::block_children(*via, members.len(), block, parent.index());
                siblings.iter().position(|&sibling| sibling == rank.index()).unwrap_or(0)
            }
            _ => usize::from(members[rank.index()].order),
        }
    }

    /// Returns the nearest planned ancestor of `rank` that is in place. `None` for the root, and
    /// for a member that is not in place itself.
    pub(in crate::session) fn parent(&self, rank: Rank) -> Option<Rank> {
        let mut at = self.planned_parent(rank)?;
        while !self.view.members[at.index()].is_in_place() {
            at = self.planned_parent(at)?;
        }
        self.view.members[rank.index()].is_in_place().then_some(at)
    }

    /// Returns the members that `rank` sends to, in sending order; in a broadcast, those that
    /// acknowledge to it.
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
            for child in plan::block_children(self.view.via, self.view.members.len(), block, at.index()) {
                let child = Rank(child as u16);
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
