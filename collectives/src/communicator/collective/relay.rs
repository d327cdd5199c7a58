//! Blocks that pass through a rank on their way down a tree from its root, or up to it. Messages
//! arrive, blocks are taken out, messages go on.

use super::blocks::block_range;
use super::mail::{AwaitedBlocks, BlockToSend, has_begun};
use crate::communicator::failure::Failure;
use crate::communicator::member::{Bundle, Group, Passage};
use crate::communicator::signature::Signature;
use ethbcast_transport::messages::SendId;
use ethbcast_transport::wire::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Long messages sent at once. Others wait, so that the one with the longest way arrives first.
const LEAVING_AT_ONCE: usize = 4;
/// Long messages awaited at once: the next one is requested while one arrives, and no more meet in
/// front of this host.
const AWAITED_AT_ONCE: usize = 2;

/// The caller's blocks: all of them at the root, elsewhere this rank's. They are given or kept.
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
        let (Some(place), Some(kept)) = (self.place(rank), self.kept.as_deref_mut()) else { return false };
        kept[place].copy_from_slice(block);
        true
    }
}

/// A passage in progress.
#[derive(Clone, Debug)]
pub struct Relay {
    arrivals: VecDeque<Bundle>,
    awaited: AwaitedBlocks,
    expected: VecDeque<Bundle>,
    departures: VecDeque<Bundle>,
    outbound: Option<BlockToSend>,
    leaving: VecDeque<SendId>,
    held: BTreeMap<Rank, Vec<u8>>,
    is_long: bool,
}

impl Relay {
    pub(super) fn of(group: &mut Group, call: Signature) -> Relay {
        let (rank, block_bytes) = (group.rank(), call.bytes as usize);
        let passage = group.streams().plans().passage(rank, (call.operation, call.root), block_bytes);
        let Passage { arrivals, departures, is_long } = passage;
        let mut relay = Relay {
            arrivals: arrivals.into(),
            awaited: AwaitedBlocks::default(),
            expected: VecDeque::new(),
            departures: departures.into(),
            outbound: None,
            leaving: VecDeque::new(),
            held: BTreeMap::new(),
            is_long,
        };
        relay.await_more(group, block_bytes);
        relay
    }

    pub(super) fn advance(&mut self, group: &mut Group, call: Signature, own: &mut Own) -> Result<bool, Failure> {
        let block_bytes = call.bytes as usize;
        loop {
            self.await_more(group, block_bytes);
            let come = self.take(group, call, own)?;
            let gone = self.send(group, call, own);
            if !come && !gone {
                return Ok(self.arrivals.is_empty() && self.expected.is_empty() && self.departures.is_empty());
            }
        }
    }

    /// Posts receives: all at once for short messages, a few for long ones. A rank without departures
    /// takes long messages in the order in which they begin to arrive.
    fn await_more(&mut self, group: &mut Group, block_bytes: usize) {
        // While departures are blocked, no more is requested.
        while !(self.is_long && (self.awaited.count() >= AWAITED_AT_ONCE || self.is_blocked())) {
            let in_order = !self.is_long || !self.departures.is_empty() || self.comes_from_one();
            let next = match in_order {
                true => (!self.arrivals.is_empty()).then_some(0),
                false => self.arrivals.iter().position(|bundle| has_begun(group, bundle.peer)),
            };
            let Some(bundle) = next.and_then(|at| self.arrivals.remove(at)) else { return };
            self.awaited.add(group, bundle.peer, bundle.blocks.len() * block_bytes);
            self.expected.push_back(bundle);
        }
    }

    fn comes_from_one(&self) -> bool {
        self.arrivals.iter().all(|bundle| bundle.peer == self.arrivals[0].peer)
    }

    fn is_blocked(&self) -> bool {
        self.outbound.is_some()
    }

    fn take(&mut self, group: &mut Group, call: Signature, own: &mut Own) -> Result<bool, Failure> {
        let before = self.expected.len();
        while let Some((at, message)) = self.awaited.take_any(group, call)? {
            let Some(Bundle { blocks, .. }) = self.expected.remove(at) else { break };
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
            if self.is_long {
                while self.leaving.front().is_some_and(|&id| group.messages().has_gone(id)) {
                    self.leaving.pop_front();
                }
                if self.leaving.len() >= LEAVING_AT_ONCE {
                    break;
                }
            }
            let Some(blocks) = blocks_of(bundle, &self.held, own) else { break };
            let outbound = self.outbound.get_or_insert_with(|| BlockToSend::new(bundle.peer));
            if !outbound.advance(group, call, &blocks) {
                break;
            }
            self.leaving.extend(outbound.id().filter(|_| self.is_long));
            self.outbound = None;
            if let Some(bundle) = self.departures.pop_front() {
                bundle.blocks.iter().for_each(|rank| _ = self.held.remove(rank));
            }
        }
        self.departures.len() < before
    }

    pub(super) fn waits_for(&self) -> Option<Rank> {
        let blocked = || self.departures.front().filter(|_| !self.leaving.is_empty());
        let to = self.outbound.as_ref().and_then(BlockToSend::waits_for);
        to.or_else(|| self.awaited.waits_for())
            .or_else(|| self.arrivals.front().or_else(blocked).map(|bundle| bundle.peer))
    }

    pub(super) fn give_up(&mut self, group: &mut Group) {
        self.awaited.clear(group);
    }
}

fn blocks_of<'a>(bundle: &Bundle, held: &'a BTreeMap<Rank, Vec<u8>>, own: &'a Own) -> Option<Vec<&'a [u8]>> {
    bundle.blocks.iter().map(|rank| own.given(*rank).or_else(|| held.get(rank).map(Vec::as_slice))).collect()
}
