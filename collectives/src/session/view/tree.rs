//! Who sends to whom among the present members of a view; in a cast, who acknowledges to whom.

use super::View;
use ethbcast_planning::plan::Plan;

/// The tree of one stream. A member that has gone is bridged: its nearest present ancestor serves its children.
#[derive(Debug)]
pub(in crate::session) struct Tree<'a> {
    view: &'a View,
    /// The plan of a block; without one the tree is the view's own.
    block: Option<Plan>,
}

impl<'a> Tree<'a> {
    /// The tree that the view names itself.
    pub(super) fn new(view: &'a View) -> Tree<'a> {
        Tree { view, block: None }
    }

    /// The tree of one block of a view in blocks.
    pub(super) fn of_block(view: &'a View, block: Plan) -> Tree<'a> {
        Tree { view, block: Some(block) }
    }

    fn planned_parent(&self, rank: u16) -> Option<u16> {
        match &self.block {
            Some(plan) => plan.parent(usize::from(rank)).map(|parent| parent as u16),
            None => self.view.members[usize::from(rank)].parent,
        }
    }

    /// A member's place among its planned parent's children.
    fn order(&self, rank: u16) -> usize {
        match &self.block {
            Some(plan) => {
                let siblings = plan.parent(usize::from(rank)).map(|parent| plan.children(parent)).unwrap_or_default();
                siblings.iter().position(|&sibling| sibling == usize::from(rank)).unwrap_or(0)
            }
            None => usize::from(self.view.members[usize::from(rank)].order),
        }
    }

    /// The nearest present ancestor of `rank` along the plan: its parent, or who took over when that one went.
    pub(in crate::session) fn parent(&self, rank: u16) -> Option<u16> {
        let mut at = self.planned_parent(rank)?;
        while !self.view.members[usize::from(at)].present {
            at = self.planned_parent(at)?;
        }
        self.view.members[usize::from(rank)].present.then_some(at)
    }

    /// The present members `rank` sends to, in sending order; in a cast those that acknowledge to it.
    pub(in crate::session) fn children(&self, rank: u16) -> Vec<u16> {
        let mut children: Vec<u16> = self.view.ranks().filter(|&child| self.parent(child) == Some(rank)).collect();
        children.sort_by_key(|&child| (self.order(child), child));
        children
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::chain;
    use ethbcast_planning::plan::Via;

    #[test]
    fn when_a_relay_leaves_its_parent_takes_over_its_children() {
        let mut view = chain(5);
        assert_eq!(view.trees()[0].children(1), [2]);
        view.members[2].present = false;
        view.members[3].present = false;
        let tree = &view.trees()[0];
        assert_eq!((tree.children(1), tree.parent(4), tree.parent(3)), (vec![4], Some(1), None));
    }

    #[test]
    fn every_block_has_a_tree_that_reaches_all_who_are_present() {
        for (via, members) in [(Via::ScatterAllgather, 7), (Via::RecursiveDoubling, 8), (Via::RecursiveDoubling, 6)] {
            let mut view = chain(members);
            view.via = via;
            view.members[3].present = false;
            let trees = view.trees();
            assert_eq!(trees.len(), usize::from(members));
            for tree in trees {
                for rank in view.ranks().filter(|&rank| rank != 0) {
                    let parent = tree.parent(rank).expect("everybody but the root has a parent");
                    assert!(tree.children(parent).contains(&rank), "{via}: {parent} serves {rank}");
                }
            }
        }
    }
}
