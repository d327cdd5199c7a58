//! Who sends to whom among the present members of a view; in a cast, who acknowledges to whom.

use super::View;
use ethbcast_planning::plan::Plan;
use ethbcast_transport::wire::Rank;

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

    fn planned_parent(&self, rank: Rank) -> Option<Rank> {
        match &self.block {
            Some(plan) => plan.parent(rank.index()).map(|parent| Rank(parent as u16)),
            None => self.view.members[rank.index()].parent,
        }
    }

    /// A member's place among its planned parent's children.
    fn order(&self, rank: Rank) -> usize {
        match &self.block {
            Some(plan) => {
                let siblings = plan.parent(rank.index()).map(|parent| plan.children(parent)).unwrap_or_default();
                siblings.iter().position(|&sibling| sibling == rank.index()).unwrap_or(0)
            }
            None => usize::from(self.view.members[rank.index()].order),
        }
    }

    /// The nearest present ancestor of `rank` along the plan: its parent, or who took over when that one went.
    pub(in crate::session) fn parent(&self, rank: Rank) -> Option<Rank> {
        let mut at = self.planned_parent(rank)?;
        while !self.view.members[at.index()].present {
            at = self.planned_parent(at)?;
        }
        self.view.members[rank.index()].present.then_some(at)
    }

    /// The present members `rank` sends to, in sending order; in a cast those that acknowledge to it.
    pub(in crate::session) fn children(&self, rank: Rank) -> Vec<Rank> {
        let mut children: Vec<Rank> = self.view.ranks().filter(|&child| self.parent(child) == Some(rank)).collect();
        children.sort_by_key(|&child| (self.order(child), child));
        children
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::chain;
    use ethbcast_planning::plan::Via;
    use ethbcast_transport::wire::Rank;

    #[test]
    fn when_a_relay_leaves_its_parent_takes_over_its_children() {
        let mut view = chain(5);
        assert_eq!(view.trees()[0].children(Rank(1)), [Rank(2)]);
        view.members[2].present = false;
        view.members[3].present = false;
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
            view.members[3].present = false;
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
