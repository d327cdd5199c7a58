//! A member's place in the streams of its group: its upstream peer, children and acknowledgement
//! parent.

use super::cast_tree::CastTree;
use super::plans::{Plans, TreePlace};
use super::way::{MessagePath, StreamName};
use crate::communicator::network::Network;
use crate::communicator::node::Nodes;
use crate::communicator::signature::Signature;
use ethbcast_planning::model::Calibration;
use ethbcast_transport::stream::{Outlet, Stream};
use ethbcast_transport::wire::{Identity, Peer, Rank, StreamId};
use ethbcast_transport::{MacAddr, Tuning};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Acknowledgement delay of a child in a tree: below its parent's shortest timeout.
const TREE_ACK_DELAY: Duration = Duration::from_millis(3);

#[derive(Clone, Debug)]
pub(super) struct Neighbours {
    /// Identity; its stream number is a placeholder.
    identity: Identity,
    group_mac: MacAddr,
    peers: Vec<Peer>,
    payload_bytes: usize,
    tuning: Tuning,
    removed: Vec<bool>,
    plans: Plans,
    casts: CastTree,
    places: BTreeMap<StreamName, TreePlace>,
}

impl Neighbours {
    pub(super) fn new(
        identity: Identity,
        group_mac: MacAddr,
        peers: Vec<Peer>,
        network: Arc<Network>,
        payload_bytes: usize,
        tuning: Tuning,
    ) -> Neighbours {
        let (removed, size) = (vec![false; peers.len()], peers.len() as u16);
        let tuning = match tuning.cast.push_bytes {
            Some(bytes) => tuning.with_push_bytes(bytes, payload_bytes, Signature::BYTES),
            None => tuning,
        };
        // There must be room for one outgoing and one incoming segment.
        let segment_frames = tuning.feed_frames_for(payload_bytes) / 4;
        let nodes = Nodes::new(peers.iter().map(|peer| peer.mac));
        let plans = Plans::new(network, &nodes, size, payload_bytes, segment_frames);
        let casts = CastTree::new(nodes, size, identity.rank, tuning.policy);
        let places = BTreeMap::new();
        Neighbours { identity, group_mac, peers, payload_bytes, tuning, removed, plans, casts, places }
    }

    pub(super) fn plans(&mut self) -> &mut Plans {
        &mut self.plans
    }

    pub(super) fn name_of(&self, number: StreamId) -> Option<StreamName> {
        StreamName::of(number, self.size(), self.plans.has_blocks()).filter(|&name| self.plans.admits(name))
    }

    /// Sets the measured costs. Streams that have begun keep their trees.
    pub(super) fn set_calibration(&mut self, calibration: Calibration) {
        self.plans.set_calibration(calibration);
        self.places.clear();
    }

    pub(super) fn rank(&self) -> Rank {
        self.identity.rank
    }

    pub(super) fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Returns how many bytes of a message are pushed, if only a part is.
    pub(super) fn push_bytes(&self, name: StreamName) -> Option<usize> {
        let pushed = self.tuning.cast.push_bytes.filter(|_| name.way == MessagePath::Cast)?;
        Some(usize::try_from(pushed).unwrap_or(usize::MAX))
    }

    pub(super) fn remove(&mut self, rank: Rank) {
        self.removed[rank.index()] = true;
    }

    pub(super) fn open(&mut self, name: StreamName) -> Stream {
        let identity = Identity { stream: name.number(self.size()), ..self.identity };
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

    pub(super) fn can_begin(&mut self, name: StreamName, rank: Rank) -> bool {
        let Some(parent) = self.parent(name) else { return false };
        parent.rank == rank || (name.way == MessagePath::Cast && name.origin == rank)
    }

    pub(super) fn parent(&mut self, name: StreamName) -> Option<Peer> {
        let to = match name.way {
            MessagePath::Cast => self.casts.parent(name.origin)?,
            _ => self.place(name).parent?,
        };
        (name.origin != self.rank()).then(|| self.peers[to.index()])
    }

    fn place(&mut self, name: StreamName) -> &TreePlace {
        let (rank, plans) = (self.identity.rank, &self.plans);
        self.places.entry(name).or_insert_with(|| plans.place(name, rank))
    }

    fn outlet(&mut self, name: StreamName) -> Outlet {
        if name.way != MessagePath::Cast {
            let children = self.place(name).children.clone();
            return Outlet::Lanes(self.present(children.into_iter()));
        }
        let children = self.present(self.casts.children(name.origin).into_iter());
        if name.origin == self.rank() {
            Outlet::Cast { group: self.group_mac, listeners: children }
        } else {
            Outlet::RepairChildren(children)
        }
    }

    fn present(&self, ranks: impl Iterator<Item = Rank>) -> Vec<Peer> {
        ranks.filter(|rank| !self.removed[rank.index()]).map(|rank| self.peers[rank.index()]).collect()
    }

    fn tuning_of(&self, name: StreamName) -> Tuning {
        // Ack intervals are fractions of the actual feed size, not of its maximum.
        let feed_frames = self.tuning.feed_frames_for(self.payload_bytes);
        let tuning = self.tuning.clone().with_feed_frames(feed_frames);
        let mut tuning = match name.way {
            MessagePath::Cast => self.casts.tuned(&tuning, name.origin),
            _ => {
                // Neighbouring relays are at nearly equal positions, so acknowledgements need not
                // be frequent.
                let mut tuning = tuning;
                tuning.ack.delay = tuning.ack.delay.max(TREE_ACK_DELAY);
                tuning
            }
        };
        tuning.feed.segment_frames = self.plans.segment_frames(name).max(1);
        tuning.ack.every_frames = tuning.ack.every_frames.min(feed_frames / 2);
        tuning
    }
}
