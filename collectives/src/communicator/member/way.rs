//! Routes that a communicator's broadcasts can take: broadcast frames or trees of relays. Each has
//! its own stream numbers.

use crate::communicator::config::MAX_RANKS;
use crate::communicator::network::most_ranks;
use crate::communicator::roster::Nodes;
use crate::membership::ack_tree::AckTree;
use ethbcast_planning::plan::Via;
use ethbcast_transport::wire::{Rank, StreamId};
use ethbcast_transport::{Policy, Tuning};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::communicator) enum MessagePath {
    Cast,
    /// Tree of this kind; `kary` stands for the agreed number of children.
    Tree(Via),
    /// Tree of least latency for the message lengths of a class.
    Latency(u8),
    Saved,
    Blocks(Via),
}

/// Routes with one stream per origin, in the order of their numbers.
const WAYS: [MessagePath; 14] = [
    MessagePath::Cast,
    MessagePath::Tree(Via::Chain),
    MessagePath::Tree(Via::Binary),
    MessagePath::Tree(KARY),
    MessagePath::Tree(Via::Binomial),
    MessagePath::Tree(Via::Flat),
    MessagePath::Latency(0),
    MessagePath::Latency(1),
    MessagePath::Latency(2),
    MessagePath::Latency(3),
    MessagePath::Saved,
    MessagePath::Tree(Via::ChainUnaware),
    MessagePath::Tree(Via::BinaryUnaware),
    MessagePath::Tree(Via::BinaryBest),
];

/// Routes with a stream for each share of each origin, in the order of their numbers.
const BLOCK_WAYS: [Via; 2] = [Via::ScatterAllgather, Via::RecursiveDoubling];

pub(super) const KARY: Via = Via::Kary(3);

/// Limit of a message's frames in each class of [`MessagePath::Latency`]; beyond, the tree hardly
/// changes.
const LATENCY_FRAMES: [u64; 4] = [1, 4, 16, 64];

const _: () = assert!(
    WAYS.len() * MAX_RANKS as usize <= u16::MAX as usize,
    "every stream has a number"
);

impl MessagePath {
    pub(in crate::communicator) fn of(via: Via, frames: u64) -> MessagePath {
        match via {
            Via::Cast => MessagePath::Cast,
            Via::Latency => MessagePath::Latency(latency_class(frames)),
            Via::Kary(_) => MessagePath::Tree(KARY),
            Via::ScatterAllgather | Via::RecursiveDoubling | Via::TwoTree => {
                MessagePath::Blocks(via)
            }
            Via::Chain | Via::Binary | Via::Binomial | Via::Flat => MessagePath::Tree(via),
            Via::ChainUnaware | Via::BinaryUnaware | Via::BinaryBest => MessagePath::Tree(via),
        }
    }

    /// Whether relays forward each frame as it comes.
    pub(super) fn is_streamed(self) -> bool {
        match self {
            MessagePath::Tree(via) => !via.is_atomic(),
            MessagePath::Blocks(via) => !via.is_scattered(),
            _ => false,
        }
    }

    pub(super) fn latency_frames(class: u8) -> u64 {
        LATENCY_FRAMES[usize::from(class).min(LATENCY_FRAMES.len() - 1)]
    }
}

fn latency_class(frames: u64) -> u8 {
    let class = LATENCY_FRAMES.iter().position(|&most| frames <= most);
    class.unwrap_or(LATENCY_FRAMES.len() - 1) as u8
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::communicator) struct StreamName {
    pub origin: Rank,
    pub way: MessagePath,
    pub share: u16,
}

impl StreamName {
    pub(in crate::communicator) fn new(origin: Rank, way: MessagePath) -> StreamName {
        StreamName {
            origin,
            way,
            share: 0,
        }
    }

    pub(super) fn first_of(origin: Rank) -> StreamName {
        StreamName::new(origin, MessagePath::Cast)
    }

    /// Returns the stream number among `size` ranks. Casts of all origins come first, from 1, then
    /// their chains, and so on. Block-wise routes, for as many ranks as can use them, and pairs of
    /// trees are last.
    pub(super) fn number(self, size: u16) -> StreamId {
        let halves = halves_from(size);
        let (size, origin, share) = (
            u32::from(size),
            u32::from(self.origin.0),
            u32::from(self.share),
        );
        let place = |way| WAYS.iter().position(|&other| other == way).unwrap_or(0) as u32;
        let at = match self.way {
            MessagePath::Blocks(Via::TwoTree) => halves as u32 + 2 * origin + share,
            MessagePath::Blocks(via) => {
                let way = BLOCK_WAYS
                    .iter()
                    .position(|&other| other == via)
                    .unwrap_or(0) as u32;
                WAYS.len() as u32 * size + (way * size + origin) * size + share
            }
            way => place(way) * size + origin,
        };
        StreamId(1 + at as u16)
    }

    pub(super) fn of(number: StreamId, size: u16) -> Option<StreamName> {
        let halves = halves_from(size);
        let (at, size) = (usize::from(number.0.checked_sub(1)?), usize::from(size));
        if let Some(&way) = WAYS.get(at / size) {
            return Some(StreamName::new(Rank((at % size) as u16), way));
        }
        if let Some(at) = at.checked_sub(halves) {
            let (origin, share) = (Rank((at / 2) as u16), (at % 2) as u16);
            let is_one = at < 2 * size && size <= usize::from(most_ranks(Via::TwoTree));
            return is_one.then_some(StreamName {
                origin,
                way: MessagePath::Blocks(Via::TwoTree),
                share,
            });
        }
        let at = at - WAYS.len() * size;
        let via = BLOCK_WAYS.get(at / (size * size))?;
        let (origin, share) = (Rank((at / size % size) as u16), (at % size) as u16);
        Some(StreamName {
            origin,
            way: MessagePath::Blocks(*via),
            share,
        })
    }
}

/// Returns the first number, from 0, of a stream of two trees.
fn halves_from(size: u16) -> usize {
    let is_for_blocks = size <= most_ranks(Via::ScatterAllgather);
    let size = usize::from(size);
    WAYS.len() * size
        + if is_for_blocks {
            BLOCK_WAYS.len() * size * size
        } else {
            0
        }
}

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
        let nodes = if policy == Policy::InOrderOnly {
            Nodes::apart(size)
        } else {
            nodes
        };
        CastTree { nodes, own, policy }
    }

    fn speakers(&self) -> AckTree {
        AckTree::of_ranks(usize::from(self.nodes.count()) - 1, self.policy)
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
        self.nodes
            .speaker((self.nodes.of(origin) + 1 + position as u16) % self.nodes.count())
    }

    fn parent_of(&self, origin: Rank, rank: Rank) -> Option<Rank> {
        match self.role(origin, rank) {
            Role::Origin => None,
            Role::Below(rank) => Some(rank),
            Role::Speaker(position) => Some(
                self.speakers()
                    .parent(position)
                    .map_or(origin, |at| self.speaker_at(origin, at)),
            ),
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
        let speakers = self
            .speakers()
            .children(position)
            .map(|at| self.speaker_at(origin, at));
        let own_host = self.nodes.ranks(self.nodes.of(rank)).iter().copied();
        speakers
            .chain(own_host.filter(|&other| other != rank))
            .collect()
    }

    pub(super) fn children(&self, origin: Rank) -> Vec<Rank> {
        self.children_of(origin, self.own)
    }

    pub(super) fn tuned(&self, own: &Tuning, origin: Rank) -> Tuning {
        let role = self.role(origin, self.own);
        if !self.nodes.are_shared() {
            let position = if let Role::Speaker(position) = role {
                Some(position)
            } else {
                None
            };
            return self.speakers().tuned(own, position);
        }
        // The origin counts itself as the first of its children.
        let siblings = self.children_of(origin, self.parent(origin).unwrap_or(origin));
        let order = siblings
            .iter()
            .position(|&rank| rank == self.own)
            .unwrap_or(0);
        let receivers = usize::from(self.nodes.count()) - 1;
        own.for_ack_tree(receivers.max(siblings.len()), siblings.len(), order)
    }
}

#[cfg(test)]
mod way_tests {
    use super::*;

    #[test]
    fn every_stream_has_a_number_of_its_own() {
        for (size, blocks, halves) in [
            (1, true, 2),
            (3, true, 2),
            (64, true, 2),
            (2048, false, 2),
            (MAX_RANKS, false, 0),
        ] {
            let names = (1..=u16::MAX).map_while(|number| {
                let name = StreamName::of(StreamId(number), size)?;
                assert_eq!(name.number(size), StreamId(number));
                Some(name)
            });
            let shares = if blocks {
                2 * usize::from(size).pow(2)
            } else {
                0
            };
            let shares = shares + halves * usize::from(size);
            assert_eq!(
                names.count(),
                WAYS.len() * usize::from(size) + shares,
                "{size} ranks"
            );
        }
        assert_eq!(StreamName::of(StreamId(0), 3), None);
    }

    #[test]
    fn every_way_to_send_is_one_here() {
        for via in Via::every() {
            let ways = [1, 5, 1000].map(|frames| MessagePath::of(via, frames));
            assert!(
                ways.iter()
                    .all(|way| WAYS.contains(way) || matches!(way, MessagePath::Blocks(_))),
                "{via}"
            );
        }
        assert_eq!(
            [1, 4, 5, 1000].map(|frames| MessagePath::of(Via::Latency, frames)),
            [0, 1, 2, 3].map(MessagePath::Latency)
        );
    }
}

#[cfg(test)]
mod cast_tree_tests {
    use super::*;
    use ethbcast_transport::MacAddr;

    fn trees(sizes: &[u8], policy: Policy) -> Vec<CastTree> {
        let address = |node| MacAddr::new(2, 0, 0, 0, 0, node);
        let port_ids = sizes
            .iter()
            .zip(0..)
            .flat_map(|(&size, node)| (0..size).map(move |port_id| (node, port_id)));
        let nodes = Nodes::new(port_ids.map(|(node, port_id)| address(node).with_port_id(port_id)));
        let size = sizes.iter().map(|&size| u16::from(size)).sum();
        (0..size)
            .map(|own| CastTree::new(nodes.clone(), size, Rank(own), policy))
            .collect()
    }

    #[test]
    fn every_rank_but_the_origin_acknowledges_to_one_and_all_paths_lead_to_the_origin() {
        for sizes in [&[1][..], &[4], &[1; 5], &[4; 4], &[1, 3, 2], &[2; 140]] {
            let trees = trees(sizes, Policy::HolesAllowed);
            for origin in (0..trees.len() as u16).map(Rank) {
                let mut heard = 0;
                for (rank, tree) in (0..).map(Rank).zip(&trees) {
                    for child in tree.children(origin) {
                        assert_eq!(
                            trees[child.index()].parent(origin),
                            Some(rank),
                            "{sizes:?} from {origin}"
                        );
                        heard += 1;
                    }
                    let mut line = std::iter::successors(Some(rank), |rank| {
                        trees[rank.index()].parent(origin)
                    });
                    assert_eq!(line.by_ref().take(trees.len()).last(), Some(origin));
                    assert_eq!(tree.tuned(&Tuning::default(), origin).check(), Ok(()));
                }
                assert_eq!(heard, trees.len() - 1, "{sizes:?} from {origin}");
            }
        }
    }

    #[test]
    fn one_rank_of_each_other_host_acknowledges_over_the_cable() {
        let tree = &trees(&[4, 4, 1, 3], Policy::HolesAllowed);
        let ranks = |ranks: &[u16]| ranks.iter().copied().map(Rank).collect::<Vec<_>>();
        assert_eq!(tree[5].children(Rank(5)), ranks(&[8, 9, 0, 4, 6, 7]));
        assert_eq!(tree[9].children(Rank(5)), ranks(&[10, 11]));
        assert_eq!(
            (tree[0].children(Rank(5)), tree[6].children(Rank(5))),
            (ranks(&[1, 2, 3]), Vec::new())
        );
        let strict = &trees(&[4, 4], Policy::InOrderOnly);
        assert_eq!(
            (strict[0].children(Rank(0)).len(), strict[6].parent(Rank(0))),
            (7, Some(Rank(0)))
        );
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
