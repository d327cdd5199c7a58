//! A point-to-point message within a collective, marked with the call to which it belongs.

use crate::communicator::error::{Cause, Failure};
use crate::communicator::member::{Bundle, FIRST_RESERVED_TAG, Group, Handover, Passage};
use crate::communicator::signature::Signature;
use ethbcast_transport::messages::{RecvId, RecvOutcome, SendId};
use ethbcast_transport::wire::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Tag of all these messages but those up the second of two trees. Between two ranks they arrive in
/// the order of the calls. The tag between these two is that of rank 0's measurement.
const TAG: u32 = FIRST_RESERVED_TAG;
const SECOND_TREE_TAG: u32 = FIRST_RESERVED_TAG + 2;

fn tag_of(tree: u16) -> u32 {
    if tree == 0 { TAG } else { SECOND_TREE_TAG }
}

#[derive(Clone, Debug)]
pub(super) struct BlockToSend {
    to: Rank,
    tag: u32,
    message: Option<Arc<[u8]>>,
    handed: Option<Handover>,
}

impl BlockToSend {
    pub(super) fn new(to: Rank) -> BlockToSend {
        BlockToSend::up(0, to)
    }

    pub(super) fn up(tree: u16, to: Rank) -> BlockToSend {
        BlockToSend {
            to,
            tag: tag_of(tree),
            message: None,
            handed: None,
        }
    }

    /// Hands over `blocks` as one message; returns false while the send queue is full. A missing
    /// peer is detected elsewhere.
    pub(super) fn advance(
        &mut self,
        group: &mut Group,
        signature: Signature,
        blocks: &[&[u8]],
    ) -> bool {
        if self.handed.is_none() {
            let message = self
                .message
                .get_or_insert_with(|| message(signature, blocks));
            let handed = group
                .messages()
                .send_internal(self.to, self.tag, message.clone());
            self.handed = Some(handed).filter(|&handed| handed != Handover::Full);
        }
        if self.handed.is_some() {
            self.message = None;
        }
        self.handed.is_some()
    }

    pub(super) fn id(&self) -> Option<SendId> {
        match self.handed {
            Some(Handover::Sent(id)) => Some(id),
            _ => None,
        }
    }

    pub(super) fn waits_for(&self) -> Option<Rank> {
        self.message.is_some().then_some(self.to)
    }
}

fn message(signature: Signature, blocks: &[&[u8]]) -> Arc<[u8]> {
    let block_bytes: usize = blocks.iter().map(|block| block.len()).sum();
    let mut message: Arc<[u8]> = std::iter::repeat_n(0, Signature::BYTES + block_bytes).collect();
    let (head, mut rest) = Arc::get_mut(&mut message)
        .expect("it has just been made")
        .split_at_mut(Signature::BYTES);
    head.copy_from_slice(&signature.head(&[]));
    for block in blocks {
        let place;
        (place, rest) = rest.split_at_mut(block.len());
        place.copy_from_slice(block);
    }
    message
}

pub(super) fn has_begun(group: &mut Group, from: Rank) -> bool {
    group.messages().has_unexpected(from, TAG)
}

#[derive(Clone, Debug, Default)]
pub(super) struct AwaitedBlocks {
    tree: u16,
    awaited: Vec<AwaitedBlock>,
}

#[derive(Clone, Debug)]
struct AwaitedBlock {
    from: Rank,
    tag: u32,
    bytes: usize,
    id: Option<RecvId>,
    misfit: bool,
}

impl AwaitedBlocks {
    pub(super) fn up(tree: u16) -> AwaitedBlocks {
        AwaitedBlocks {
            tree,
            ..AwaitedBlocks::default()
        }
    }

    /// Awaits a block from a rank. The receive is posted at once, so that the block need not wait
    /// for a grant.
    pub(super) fn add(&mut self, group: &mut Group, from: Rank, bytes: usize) {
        let mut inbound = AwaitedBlock {
            from,
            tag: tag_of(self.tree),
            bytes,
            id: None,
            misfit: false,
        };
        // Of several from one rank the one awaited longest is posted first.
        let waits = |one: &AwaitedBlock| one.from == from && one.id.is_none();
        if !self.awaited.iter().any(waits) {
            inbound.request(group);
        }
        self.awaited.push(inbound);
    }

    /// Takes a block that has arrived, with its signature, and its index among those awaited. Of
    /// several from one rank it takes the one awaited longest.
    pub(super) fn take_any(
        &mut self,
        group: &mut Group,
        signature: Signature,
    ) -> Result<Option<(usize, Vec<u8>)>, Failure> {
        for at in 0..self.awaited.len() {
            let (before, rest) = self.awaited.split_at_mut(at);
            let inbound = &mut rest[0];
            if before.iter().all(|earlier| earlier.from != inbound.from)
                && let Some(message) = inbound.poll(group, signature)?
            {
                self.awaited.remove(at);
                return Ok(Some((at, message)));
            }
        }
        Ok(None)
    }

    pub(super) fn have_come(
        &mut self,
        group: &mut Group,
        signature: Signature,
    ) -> Result<bool, Failure> {
        while self.take_any(group, signature)?.is_some() {}
        Ok(self.awaited.is_empty())
    }

    pub(super) fn take_first(
        &mut self,
        group: &mut Group,
        signature: Signature,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let Some(inbound) = self.awaited.first_mut() else {
            return Ok(None);
        };
        let message = inbound.poll(group, signature)?;
        if message.is_some() {
            self.awaited.remove(0);
        }
        Ok(message)
    }

    pub(super) fn count(&self) -> usize {
        self.awaited.len()
    }

    pub(super) fn waits_for(&self) -> Option<Rank> {
        self.awaited.first().map(|inbound| inbound.from)
    }

    pub(super) fn clear(&mut self, group: &mut Group) {
        self.awaited
            .drain(..)
            .filter_map(|inbound| inbound.id)
            .for_each(|id| group.messages().drop_receive(id));
    }
}

impl AwaitedBlock {
    fn request(&mut self, group: &mut Group) {
        if self.id.is_none() {
            self.id = group.messages().receive_internal(
                self.from,
                self.tag,
                Signature::BYTES + self.bytes,
            );
        }
    }

    fn poll(
        &mut self,
        group: &mut Group,
        signature: Signature,
    ) -> Result<Option<Vec<u8>>, Failure> {
        self.request(group);
        match self.id.and_then(|id| group.messages().take_received(id)) {
            Some(RecvOutcome::Received { bytes }) => match Signature::split(&bytes) {
                Some((found, block)) if found == signature && block.len() == self.bytes => {
                    return Ok(Some(bytes));
                }
                Some((found, _)) if found.number > signature.number => self.misfit = true,
                found => {
                    return Err(group.calls().odd(
                        self.from,
                        found.map(|(found, _)| found),
                        signature,
                    ));
                }
            },
            Some(RecvOutcome::TooShort { .. }) => self.misfit = true,
            // The block was lost with its sender, or the sender is alive but has not replied for
            // long.
            Some(RecvOutcome::PeerGone) => {
                let (from, cause) = (
                    signature.number,
                    Cause::Cut {
                        one: self.from,
                        other: group.rank(),
                    },
                );
                let absence = group.calls().absence(self.from, signature.number);
                return Err(absence.unwrap_or(Failure { from, cause }));
            }
            // Collectives never withdraw messages or set deadlines.
            Some(RecvOutcome::Withdrawn | RecvOutcome::TimedOut) | None => {}
        }
        if self.misfit
            && let Some(failure) = group.calls().absence(self.from, signature.number)
        {
            return Err(failure);
        }
        match group
            .calls()
            .misfit(self.from, signature)
            .filter(|_| self.misfit)
        {
            Some(failure) => Err(failure),
            None => Ok(None),
        }
    }
}

/// Long messages sent at once. Others wait, so that the one with the longest path arrives first.
pub(super) const LEAVING_AT_ONCE: usize = 4;

/// Long messages that have been handed over, until all of their frames have left.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaving(VecDeque<SendId>);

impl Leaving {
    pub(super) fn has_room(&mut self, group: &mut Group, most: usize) -> bool {
        while self
            .0
            .front()
            .is_some_and(|&id| group.messages().has_gone(id))
        {
            self.0.pop_front();
        }
        self.0.len() < most
    }

    pub(super) fn add(&mut self, outbound: &BlockToSend) {
        self.0.extend(outbound.id());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Long messages awaited at once: the next one is requested while one arrives, so that no more meet
/// in front of this host.
const AWAITED_AT_ONCE: usize = 2;

/// The caller's blocks, from which messages are sent or into which they are stored: all of them at
/// the root, elsewhere this rank's.
pub(super) struct Own<'a> {
    pub(super) rank: Rank,
    pub(super) block_bytes: usize,
    pub(super) has_all: bool,
    pub(super) given: Option<&'a [u8]>,
    pub(super) kept: Option<&'a mut [u8]>,
}

impl Own<'_> {
    fn place(&self, rank: Rank) -> Option<Range<usize>> {
        if self.has_all {
            return Some(block_range(rank, self.block_bytes));
        }
        (rank == self.rank).then_some(0..self.block_bytes)
    }

    fn given(&self, rank: Rank) -> Option<&[u8]> {
        Some(&self.given?[self.place(rank)?])
    }

    fn keep(&mut self, rank: Rank, block: &[u8]) -> bool {
        let (Some(place), Some(kept)) = (self.place(rank), self.kept.as_deref_mut()) else {
            return false;
        };
        kept[place].copy_from_slice(block);
        true
    }
}

#[derive(Clone, Debug)]
pub struct Relay {
    arrivals: VecDeque<Bundle>,
    awaited: AwaitedBlocks,
    expected: VecDeque<Bundle>,
    departures: VecDeque<Bundle>,
    outbound: Option<BlockToSend>,
    leaving: Leaving,
    held: BTreeMap<Rank, Vec<u8>>,
    is_long: bool,
}

impl Relay {
    pub(super) fn of(group: &mut Group, call: Signature) -> Relay {
        let (rank, block_bytes) = (group.rank(), call.bytes as usize);
        let passage =
            group
                .streams()
                .plans()
                .passage(rank, (call.operation, call.root), block_bytes);
        let Passage {
            arrivals,
            departures,
            is_long,
        } = passage;
        let mut relay = Relay {
            arrivals: arrivals.into(),
            awaited: AwaitedBlocks::default(),
            expected: VecDeque::new(),
            departures: departures.into(),
            outbound: None,
            leaving: Leaving::default(),
            held: BTreeMap::new(),
            is_long,
        };
        relay.await_more(group, block_bytes);
        relay
    }

    pub(super) fn advance(
        &mut self,
        group: &mut Group,
        call: Signature,
        own: &mut Own,
    ) -> Result<bool, Failure> {
        let block_bytes = call.bytes as usize;
        loop {
            self.await_more(group, block_bytes);
            let come = self.take(group, call, own)?;
            let gone = self.send(group, call, own);
            if !come && !gone {
                return Ok(self.arrivals.is_empty()
                    && self.expected.is_empty()
                    && self.departures.is_empty());
            }
        }
    }

    /// Posts receives: all at once for short messages, a few for long ones. A rank that sends
    /// nothing takes long messages in the order in which they begin to arrive.
    fn await_more(&mut self, group: &mut Group, block_bytes: usize) {
        // While departures are blocked, no more is requested.
        while !(self.is_long && (self.awaited.count() >= AWAITED_AT_ONCE || self.is_blocked())) {
            let in_order = !self.is_long || !self.departures.is_empty() || self.comes_from_one();
            let next = match in_order {
                true => (!self.arrivals.is_empty()).then_some(0),
                false => self
                    .arrivals
                    .iter()
                    .position(|bundle| has_begun(group, bundle.peer)),
            };
            let Some(bundle) = next.and_then(|at| self.arrivals.remove(at)) else {
                return;
            };
            self.awaited
                .add(group, bundle.peer, bundle.blocks.len() * block_bytes);
            self.expected.push_back(bundle);
        }
    }

    fn comes_from_one(&self) -> bool {
        self.arrivals
            .iter()
            .all(|bundle| bundle.peer == self.arrivals[0].peer)
    }

    fn is_blocked(&self) -> bool {
        self.outbound.is_some()
    }

    fn take(&mut self, group: &mut Group, call: Signature, own: &mut Own) -> Result<bool, Failure> {
        let before = self.expected.len();
        while let Some((at, message)) = self.awaited.take_any(group, call)? {
            let Some(Bundle { blocks, .. }) = self.expected.remove(at) else {
                break;
            };
            let mut bytes = &message[Signature::BYTES..];
            for rank in blocks {
                let block;
                (block, bytes) = bytes.split_at(call.bytes as usize);
                if !own.keep(rank, block) {
                    self.held.insert(rank, block.to_vec());
                }
            }
        }
        Ok(self.expected.len() < before)
    }

    fn send(&mut self, group: &mut Group, call: Signature, own: &Own) -> bool {
        let before = self.departures.len();
        while let Some(bundle) = self.departures.front() {
            if self.is_long && !self.leaving.has_room(group, LEAVING_AT_ONCE) {
                break;
            }
            let Some(blocks) = blocks_of(bundle, &self.held, own) else {
                break;
            };
            let outbound = self
                .outbound
                .get_or_insert_with(|| BlockToSend::new(bundle.peer));
            if !outbound.advance(group, call, &blocks) {
                break;
            }
            if self.is_long {
                self.leaving.add(outbound);
            }
            self.outbound = None;
            if let Some(bundle) = self.departures.pop_front() {
                bundle
                    .blocks
                    .iter()
                    .for_each(|rank| _ = self.held.remove(rank));
            }
        }
        self.departures.len() < before
    }

    pub(super) fn waits_for(&self) -> Option<Rank> {
        let blocked = || self.departures.front().filter(|_| !self.leaving.is_empty());
        let to = self.outbound.as_ref().and_then(BlockToSend::waits_for);
        to.or_else(|| self.awaited.waits_for()).or_else(|| {
            self.arrivals
                .front()
                .or_else(blocked)
                .map(|bundle| bundle.peer)
        })
    }

    pub(super) fn give_up(&mut self, group: &mut Group) {
        self.awaited.clear(group);
    }
}

fn blocks_of<'a>(
    bundle: &Bundle,
    held: &'a BTreeMap<Rank, Vec<u8>>,
    own: &'a Own,
) -> Option<Vec<&'a [u8]>> {
    bundle
        .blocks
        .iter()
        .map(|rank| {
            own.given(*rank)
                .or_else(|| held.get(rank).map(Vec::as_slice))
        })
        .collect()
}

pub(super) fn block_range(rank: Rank, block_bytes: usize) -> Range<usize> {
    let start = rank.index() * block_bytes;
    start..start + block_bytes
}
