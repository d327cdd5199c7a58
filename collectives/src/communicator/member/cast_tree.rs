//! Acknowledgement tree of a cast.
//!
//! One rank of each host but the origin's, its speaker, acknowledges along the tree of [`AckTree`].
//! Other ranks of a host acknowledge to its speaker, and those of the origin's host to the origin.
//! Each host's acknowledgements therefore cross its cable once.

use crate::communicator::node::Nodes;
use crate::membership::ack_tree::AckTree;
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Policy, Tuning};

#[derive(Clone, Debug)]
pub(super) struct CastTree {
    nodes: Nodes,
    own: Rank,
    policy: Policy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Origin,
    Speaker(usize),
    Below(Rank),
}

impl CastTree {
    /// Creates the trees for `nodes`. Under strict go-back-n all acknowledge to the origin: no rank
    /// keeps frames out of order, so none can repair for others.
    pub(super) fn new(nodes: Nodes, size: u16, own: Rank, policy: Policy) -> CastTree {
        let nodes = if policy == Policy::InOrderOnly { Nodes::apart(size) } else { nodes };
        CastTree { nodes, own, policy }
    }

    fn speakers(&self) -> AckTree {
        AckTree::new(usize::from(self.nodes.count()) - 1, self.policy)
    }

    fn role(&self, origin: Rank, rank: Rank) -> Role {
        let (home, node) = (self.nodes.of(origin), self.nodes.of(rank));
        let behind = (node + self.nodes.count() - home) % self.nodes.count();
        match usize::from(behind).checked_sub(1) {
            None if rank == origin => Role::Origin,
            None => Role::Below(origin),
            Some(position) if rank == self.nodes.speaker(node) => Role::Speaker(position),
            Some(_) => Role::Below(self.nodes.speaker(node)),
        }
    }

    fn speaker_at(&self, origin: Rank, position: usize) -> Rank {
        self.nodes.speaker((self.nodes.of(origin) + 1 + position as u16) % self.nodes.count())
    }

    fn parent_of(&self, origin: Rank, rank: Rank) -> Option<Rank> {
        match self.role(origin, rank) {
            Role::Origin => None,
            Role::Below(rank) => Some(rank),
            Role::Speaker(position) => {
                Some(self.speakers().parent(position).map_or(origin, |at| self.speaker_at(origin, at)))
            }
        }
    }

    pub(super) fn parent(&self, origin: Rank) -> Option<Rank> {
        self.parent_of(origin, self.own)
    }

    fn children_of(&self, origin: Rank, rank: Rank) -> Vec<Rank> {
        let position = match self.role(origin, rank) {
            Role::Below(_) => return Vec::new(),
            Role::Origin => None,
            Role::Speaker(position) => Some(position),
        };
        let speakers = self.speakers().children(position).map(|at| self.speaker_at(origin, at));
        let own_host = self.nodes.ranks(self.nodes.of(rank)).iter().copied();
        speakers.chain(own_host.filter(|&other| other != rank)).collect()
    }

    pub(super) fn children(&self, origin: Rank) -> Vec<Rank> {
        self.children_of(origin, self.own)
    }

    pub(super) fn tuned(&self, own: &Tuning, origin: Rank) -> Tuning {
        let role = self.role(origin, self.own);
        if !self.nodes.are_shared() {
            let position = if let Role::Speaker(position) = role { Some(position) } else { None };
            return self.speakers().tuned(own, position);
        }
        // The origin counts itself as the first of its children.
        let siblings = self.children_of(origin, self.parent(origin).unwrap_or(origin));
        let order = siblings.iter().position(|&rank| rank == self.own).unwrap_or(0);
        let receivers = usize::from(self.nodes.count()) - 1;
        own.for_ack_tree(receivers.max(siblings.len()), siblings.len(), order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_transport::MacAddr;

    fn trees(sizes: &[u8], policy: Policy) -> Vec<CastTree> {
        let address = |node| MacAddr::new(2, 0, 0, 0, 0, node);
        let seats = sizes.iter().zip(0..).flat_map(|(&size, node)| (0..size).map(move |seat| (node, seat)));
        let nodes = Nodes::new(seats.map(|(node, seat)| address(node).with_seat(seat)));
        let size = sizes.iter().map(|&size| u16::from(size)).sum();
        (0..size).map(|own| CastTree::new(nodes.clone(), size, Rank(own), policy)).collect()
    }

    #[test]
    fn everybody_but_the_origin_acknowledges_to_one_and_all_lines_lead_to_the_origin() {
        for sizes in [&[1][..], &[4], &[1; 5], &[4; 4], &[1, 3, 2], &[2; 140]] {
            let trees = trees(sizes, Policy::HolesAllowed);
            for origin in (0..trees.len() as u16).map(Rank) {
                let mut heard = 0;
                for (rank, tree) in (0..).map(Rank).zip(&trees) {
                    for child in tree.children(origin) {
                        assert_eq!(trees[child.index()].parent(origin), Some(rank), "{sizes:?} from {origin}");
                        heard += 1;
                    }
                    let mut line = std::iter::successors(Some(rank), |rank| trees[rank.index()].parent(origin));
                    assert_eq!(line.by_ref().take(trees.len()).last(), Some(origin));
                    assert_eq!(tree.tuned(&Tuning::default(), origin).check(), Ok(()));
                }
                assert_eq!(heard, trees.len() - 1, "{sizes:?} from {origin}");
            }
        }
    }

    #[test]
    fn of_each_other_host_one_rank_acknowledges_over_the_cable() {
        let tree = &trees(&[4, 4, 1, 3], Policy::HolesAllowed);
        let ranks = |ranks: &[u16]| ranks.iter().copied().map(Rank).collect::<Vec<_>>();
        assert_eq!(tree[5].children(Rank(5)), ranks(&[8, 9, 0, 4, 6, 7]));
        assert_eq!(tree[9].children(Rank(5)), ranks(&[10, 11]));
        assert_eq!((tree[0].children(Rank(5)), tree[6].children(Rank(5))), (ranks(&[1, 2, 3]), Vec::new()));
        let strict = &trees(&[4, 4], Policy::InOrderOnly);
        assert_eq!((strict[0].children(Rank(0)).len(), strict[6].parent(Rank(0))), (7, Some(Rank(0))));
    }

    #[test]
    fn where_every_rank_has_a_host_of_its_own_the_numbers_are_those_of_sessions() {
        let own = Tuning::default();
        let tree = &trees(&[1; 8], Policy::HolesAllowed);
        assert_eq!(
            (tree[3].tuned(&own, Rank(0)), tree[0].tuned(&own, Rank(0))),
            (own.for_cast(7, 2), own.for_cast(7, 0))
        );
    }
}
