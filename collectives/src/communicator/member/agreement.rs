//! Check that all ranks make the same collective call, and the reason if they differ.

use super::plans::{Plans, TreePlace};
use super::way::{CastTree, MessagePath, StreamName};
use crate::communicator::body::REPORTED_CALLS;
use crate::communicator::error::Failure;
use crate::communicator::network::Network;
use crate::communicator::roster::Nodes;
use crate::communicator::signature::{Operation, Signature};
use ethbcast_planning::model::Calibration;
use ethbcast_transport::stream::{Outlet, Stream};
use ethbcast_transport::wire::{Identity, Peer, Rank, StreamId};
use ethbcast_transport::{MacAddr, Tuning};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

const REMEMBERED_CALLS: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Agreement {
    own: Rank,
    next: u64,
    history: VecDeque<Signature>,
    others: Vec<Option<Signature>>,
    ahead: u64,
    current: Option<Signature>,
    failure: Option<Failure>,
}

impl Agreement {
    pub(super) fn new(own: Rank, size: u16) -> Agreement {
        let (history, others) = (
            VecDeque::with_capacity(REMEMBERED_CALLS),
            vec![None; usize::from(size)],
        );
        Agreement {
            own,
            next: 0,
            history,
            others,
            ahead: 0,
            current: None,
            failure: None,
        }
    }

    pub(super) fn last(&self) -> [Option<Signature>; REPORTED_CALLS] {
        let mut newest = self.history.iter().rev().copied();
        std::array::from_fn(|_| newest.next())
    }

    pub(super) fn current(&self) -> Option<Signature> {
        self.current
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Begins the next call, and compares it with the calls reported by others. Returns a mismatch
    /// and the rank whose call differs.
    pub(super) fn begin(
        &mut self,
        operation: Operation,
        root: Rank,
        bytes: u64,
    ) -> (Signature, Option<(Rank, Failure)>) {
        let signature = Signature {
            number: self.next,
            operation,
            root,
            bytes,
        };
        self.next += 1;
        if self.history.len() == REMEMBERED_CALLS {
            self.history.pop_front();
        }
        self.history.push_back(signature);
        self.current = Some(signature);
        let differs =
            |other: &Option<Signature>| other.is_some_and(|other| differ(other, signature));
        // Others are rarely ahead; only then are all compared.
        let other = if self.ahead > signature.number {
            self.others.iter().position(differs)
        } else {
            None
        };
        let mismatch = other.and_then(|rank| {
            let theirs = (Rank(rank as u16), self.others[rank]?);
            Some((theirs.0, Failure::mismatch(theirs, (self.own, signature))))
        });
        (signature, mismatch)
    }

    pub(super) fn calls(&self) -> u64 {
        self.next
    }

    pub(super) fn end(&mut self) {
        self.current = None;
    }

    pub(super) fn compare(&self, rank: Rank, signature: Signature) -> Option<Failure> {
        let own = self.history.iter().find(|own| differ(**own, signature))?;
        Some(Failure::mismatch((rank, signature), (self.own, *own)))
    }

    /// Records the recent calls of `rank`, newest first; they replace its earlier report. Returns a
    /// mismatch if this rank remembers a different call of one of these numbers.
    pub(super) fn on_calls(&mut self, rank: Rank, calls: &[Signature]) -> Option<Failure> {
        self.others[rank.index()] = calls.first().copied();
        self.ahead = self.ahead.max(
            calls
                .first()
                .map_or(0, |newest| newest.number.saturating_add(1)),
        );
        calls
            .iter()
            .rev()
            .find_map(|&signature| self.compare(rank, signature))
    }

    pub(super) fn newest_of(&self, rank: Rank) -> u64 {
        self.others[rank.index()].map_or(0, |signature| signature.number)
    }

    pub(super) fn has_called(&self, rank: Rank, number: u64) -> bool {
        self.others[rank.index()].is_some_and(|signature| signature.number >= number)
    }

    pub(super) fn missing(&self, number: u64) -> Vec<Rank> {
        let ranks = (0..self.others.len() as u16).map(Rank);
        ranks
            .filter(|&rank| rank != self.own && !self.has_called(rank, number))
            .collect()
    }

    /// Records that collectives cannot go on. The first failure stands, unless the new one is about
    /// earlier calls. Returns whether the new one stands.
    pub(super) fn fail(&mut self, failure: Failure) -> bool {
        let stands = self.failure.is_none_or(|known| failure.from < known.from);
        if stands {
            self.failure = Some(failure);
        }
        stands
    }

    pub(super) fn failure_of(&self, number: u64) -> Option<Failure> {
        self.failure.filter(|failure| failure.from <= number)
    }
}

fn differ(one: Signature, other: Signature) -> bool {
    one.number == other.number && one != other
}

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
        Neighbours {
            identity,
            group_mac,
            peers,
            payload_bytes,
            tuning,
            removed,
            plans,
            casts,
            places,
        }
    }

    pub(super) fn plans(&mut self) -> &mut Plans {
        &mut self.plans
    }

    pub(super) fn name_of(&self, number: StreamId) -> Option<StreamName> {
        StreamName::of(number, self.size()).filter(|&name| self.plans.admits(name))
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

    pub(super) fn push_bytes(&self, name: StreamName) -> Option<usize> {
        let pushed = self
            .tuning
            .cast
            .push_bytes
            .filter(|_| name.way == MessagePath::Cast)?;
        Some(usize::try_from(pushed).unwrap_or(usize::MAX))
    }

    pub(super) fn remove(&mut self, rank: Rank) {
        self.removed[rank.index()] = true;
    }

    pub(super) fn open(&mut self, name: StreamName) -> Stream {
        let identity = Identity {
            stream: name.number(self.size()),
            ..self.identity.clone()
        };
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
        let Some(parent) = self.parent(name) else {
            return false;
        };
        parent.rank == rank || (name.way == MessagePath::Cast && name.origin == rank)
    }

    pub(super) fn parent(&mut self, name: StreamName) -> Option<Peer> {
        let to = match name.way {
            MessagePath::Cast => self.casts.parent(name.origin)?,
            _ => self.place(name).parent?,
        };
        (name.origin != self.rank()).then(|| self.peers[to.index()])
    }

    pub(super) fn place(&mut self, name: StreamName) -> &TreePlace {
        let (rank, plans) = (self.identity.rank, &self.plans);
        self.places
            .entry(name)
            .or_insert_with(|| plans.place(name, rank))
    }

    fn outlet(&mut self, name: StreamName) -> Outlet {
        if name.way != MessagePath::Cast {
            let children = self.place(name).children.clone();
            return Outlet::Lanes(self.present(children.into_iter()));
        }
        let children = self.present(self.casts.children(name.origin).into_iter());
        if name.origin == self.rank() {
            Outlet::Cast {
                group: self.group_mac,
                listeners: children,
            }
        } else {
            Outlet::RepairChildren(children)
        }
    }

    fn present(&self, ranks: impl Iterator<Item = Rank>) -> Vec<Peer> {
        ranks
            .filter(|rank| !self.removed[rank.index()])
            .map(|rank| self.peers[rank.index()])
            .collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communicator::error::Cause;

    fn barrier(number: u64) -> Signature {
        Signature {
            number,
            operation: Operation::Barrier,
            root: Rank(0),
            bytes: 0,
        }
    }

    #[test]
    fn a_differing_call_is_noticed_in_any_order_of_arrival() {
        let mut agreement = Agreement::new(Rank(0), 3);
        assert_eq!(
            agreement.on_calls(Rank(2), &[barrier(1)]),
            None,
            "this rank has called nothing yet"
        );
        assert_eq!(agreement.begin(Operation::Gather, Rank(0), 4).1, None);
        let (gather, mismatch) = agreement.begin(Operation::Gather, Rank(0), 4);
        let expected = |rank| {
            let cause = Cause::Mismatch {
                one: (Rank(rank), barrier(1)),
                other: (Rank(0), gather),
            };
            Failure { from: 1, cause }
        };
        assert_eq!(mismatch, Some((Rank(2), expected(2))));
        assert_eq!(
            agreement.on_calls(Rank(1), &[barrier(1)]),
            Some(expected(1))
        );
        assert_eq!(agreement.missing(1), []);
        assert_eq!(agreement.missing(2), [Rank(1), Rank(2)]);
        agreement.on_calls(Rank(2), &[barrier(u64::MAX)]);
        agreement.on_calls(Rank(2), &[barrier(1)]);
        assert_eq!(
            (
                agreement.newest_of(Rank(2)),
                agreement.has_called(Rank(2), 2)
            ),
            (1, false),
            "its last word counts"
        );
    }

    #[test]
    fn the_first_reason_stands_unless_another_is_about_earlier_calls_and_calls_before_it_are_not_touched()
     {
        let mut agreement = Agreement::new(Rank(0), 2);
        let first = Failure {
            from: 5,
            cause: Cause::Left { rank: Rank(1) },
        };
        assert!(
            agreement.fail(first)
                && !agreement.fail(Failure {
                    from: 5,
                    cause: Cause::Gone { rank: Rank(1) }
                })
        );
        assert_eq!(
            (agreement.failure_of(4), agreement.failure_of(5)),
            (None, Some(first))
        );
        let earlier = Failure {
            from: 4,
            cause: Cause::Gone { rank: Rank(1) },
        };
        assert!(agreement.fail(earlier));
        assert_eq!(agreement.failure_of(5), Some(earlier));
    }
}
