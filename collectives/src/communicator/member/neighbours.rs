//! Where a member stands in the streams of its group: the name of each, and who sends and acknowledges what to whom.

use crate::membership::ack_tree::AckTree;
use ethbcast_transport::stream::{Outlet, Stream};
use ethbcast_transport::wire::{Identity, Peer, Rank, StreamId};
use ethbcast_transport::{MacAddr, Tuning};

/// How a rank's bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::communicator) enum Way {
    /// By one frame to all.
    Cast,
    /// From rank to rank, each handing on to the next.
    Chain,
}

/// One stream of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::communicator) struct StreamName {
    /// The rank it comes from.
    pub origin: Rank,
    pub way: Way,
}

impl StreamName {
    /// The number in its frames: cast of rank 0, chain of rank 0, cast of rank 1, and so on, from 1.
    pub(super) fn number(self) -> StreamId {
        StreamId(1 + 2 * self.origin.0 + u16::from(self.way == Way::Chain))
    }

    pub(super) fn of(number: StreamId, size: u16) -> Option<StreamName> {
        let index = number.0.checked_sub(1)?;
        let way = if index % 2 == 0 { Way::Cast } else { Way::Chain };
        (index / 2 < size).then_some(StreamName { origin: Rank(index / 2), way })
    }
}

/// Where a member stands.
#[derive(Clone, Debug)]
pub(super) struct Neighbours {
    /// The stream number in it stands for none.
    identity: Identity,
    group_mac: MacAddr,
    peers: Vec<Peer>,
    payload_bytes: usize,
    /// The numbers of all streams, before those that depend on the place.
    tuning: Tuning,
    /// Ranks that are served no more.
    removed: Vec<bool>,
}

impl Neighbours {
    pub(super) fn new(
        identity: Identity,
        group_mac: MacAddr,
        peers: Vec<Peer>,
        payload_bytes: usize,
        tuning: Tuning,
    ) -> Neighbours {
        let removed = vec![false; peers.len()];
        Neighbours { identity, group_mac, peers, payload_bytes, tuning, removed }
    }

    /// The own rank.
    pub(super) fn rank(&self) -> Rank {
        self.identity.rank
    }

    /// The longest payload of one frame, in bytes.
    pub(super) fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// A rank is served no more.
    pub(super) fn remove(&mut self, rank: Rank) {
        self.removed[rank.index()] = true;
    }

    /// This member's end of a stream, empty.
    pub(super) fn open(&self, name: StreamName) -> Stream {
        let identity = Identity { stream: name.number(), ..self.identity };
        let (outlet, tuning, bytes) = (self.outlet(name), self.tuning_of(name), self.payload_bytes);
        match self.parent(name) {
            None => Stream::origin(identity, bytes, &outlet, tuning),
            Some(parent) => {
                let mut stream = Stream::receiver(identity, bytes, parent, &outlet, tuning);
                stream.set_origin(self.peers[name.origin.index()]);
                stream
            }
        }
    }

    pub(super) fn size(&self) -> u16 {
        self.peers.len() as u16
    }

    /// Whether the first frame of a stream may come from a rank: from the one that is acknowledged to; or a cast's from
    /// its origin.
    pub(super) fn can_begin(&self, name: StreamName, rank: Rank) -> bool {
        let Some(parent) = self.parent(name) else { return false };
        parent.rank == rank || (name.way == Way::Cast && name.origin == rank)
    }

    /// To whom this member acknowledges a stream; `None` for its own.
    pub(super) fn parent(&self, name: StreamName) -> Option<Peer> {
        let own = self.identity.rank;
        let to = match name.way {
            Way::Cast => self
                .ack_tree()
                .parent(self.position(name.origin)?)
                .map_or(name.origin, |at| self.rank_at(name.origin, at)),
            Way::Chain => own.ahead(self.size() - 1, self.size()),
        };
        (name.origin != own).then(|| self.peers[to.index()])
    }

    /// To whom it hands a stream on, or who acknowledges to it.
    fn outlet(&self, name: StreamName) -> Outlet {
        let (own, position) = (self.identity.rank, self.position(name.origin));
        let there = |rank: &Rank| !self.removed[rank.index()];
        let peers =
            |ranks: &mut dyn Iterator<Item = Rank>| ranks.filter(there).map(|rank| self.peers[rank.index()]).collect();
        match name.way {
            Way::Chain => {
                let next = own.ahead(1, self.size());
                Outlet::Lanes(peers(&mut std::iter::once(next).filter(|&next| next != name.origin)))
            }
            Way::Cast => {
                let children = self.ack_tree().children(position);
                let children = peers(&mut children.map(|at| self.rank_at(name.origin, at)));
                match position {
                    None => Outlet::Cast { group: self.group_mac, listeners: children },
                    Some(_) => Outlet::RepairChildren(children),
                }
            }
        }
    }

    fn ack_tree(&self) -> AckTree {
        AckTree::new(usize::from(self.size()) - 1, self.tuning.policy)
    }

    /// This member's position among the receivers of a cast; `None` at its origin.
    fn position(&self, origin: Rank) -> Option<usize> {
        let behind = (self.identity.rank.0 + self.size() - origin.0) % self.size();
        usize::from(behind).checked_sub(1)
    }

    fn rank_at(&self, origin: Rank, position: usize) -> Rank {
        origin.ahead(1 + position as u16, self.size())
    }

    /// The numbers of a stream: a cast's depend on where this member stands among those who acknowledge.
    fn tuning_of(&self, name: StreamName) -> Tuning {
        // Rhythms are parts of the feed that there is, not of one that there could be.
        let feed_frames = self.tuning.feed_frames_for(self.payload_bytes);
        let tuning = self.tuning.clone().with_feed_frames(feed_frames);
        let mut tuning = match name.way {
            Way::Cast => self.ack_tree().tuned(&tuning, self.position(name.origin)),
            Way::Chain => tuning,
        };
        tuning.ack.every_frames = tuning.ack.every_frames.min(feed_frames / 2);
        tuning
    }
}
