//! One message of a collective between two ranks: its signature, then its bytes.

use crate::communicator::failure::{Cause, Failure};
use crate::communicator::member::{FIRST_RESERVED_TAG, Group, Handover};
use crate::communicator::signature::Signature;
use ethbcast_transport::messages::{RecvId, RecvOutcome, SendId};
use ethbcast_transport::wire::Rank;
use std::sync::Arc;

/// Tag of all these messages. Between two ranks they arrive in the order of the calls.
const TAG: u32 = FIRST_RESERVED_TAG;

#[derive(Clone, Debug)]
pub(super) struct BlockToSend {
    to: Rank,
    message: Option<Arc<[u8]>>,
    handed: Option<Handover>,
}

impl BlockToSend {
    pub(super) fn new(to: Rank) -> BlockToSend {
        BlockToSend { to, message: None, handed: None }
    }

    /// Hands over `blocks` as one message; returns false while the send queue is full. A missing
    /// peer is detected elsewhere.
    pub(super) fn advance(&mut self, group: &mut Group, signature: Signature, blocks: &[&[u8]]) -> bool {
        if self.handed.is_none() {
            let message = self.message.get_or_insert_with(|| message(signature, blocks));
            let handed = group.messages().send_internal(self.to, TAG, message.clone());
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
    let (head, mut rest) = Arc::get_mut(&mut message).expect("it has just been made").split_at_mut(Signature::BYTES);
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
    awaited: Vec<AwaitedBlock>,
}

#[derive(Clone, Debug)]
struct AwaitedBlock {
    from: Rank,
    bytes: usize,
    id: Option<RecvId>,
    misfit: bool,
}

impl AwaitedBlocks {
    /// Awaits a block from a rank. The receive is posted at once, so that the block need not wait
    /// for a grant.
    pub(super) fn add(&mut self, group: &mut Group, from: Rank, bytes: usize) {
        let mut inbound = AwaitedBlock { from, bytes, id: None, misfit: false };
        inbound.ask(group);
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

    /// Whether none is awaited any more; for collectives whose blocks are empty.
    pub(super) fn have_come(&mut self, group: &mut Group, signature: Signature) -> Result<bool, Failure> {
        while self.take_any(group, signature)?.is_some() {}
        Ok(self.awaited.is_empty())
    }

    pub(super) fn take_first(&mut self, group: &mut Group, signature: Signature) -> Result<Option<Vec<u8>>, Failure> {
        let Some(inbound) = self.awaited.first_mut() else { return Ok(None) };
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
        self.awaited.drain(..).filter_map(|inbound| inbound.id).for_each(|id| group.messages().drop_receive(id));
    }
}

impl AwaitedBlock {
    fn ask(&mut self, group: &mut Group) {
        if self.id.is_none() {
            self.id = group.messages().receive_internal(self.from, TAG, Signature::BYTES + self.bytes);
        }
    }

    fn poll(&mut self, group: &mut Group, signature: Signature) -> Result<Option<Vec<u8>>, Failure> {
        self.ask(group);
        match self.id.and_then(|id| group.messages().take_received(id)) {
            Some(RecvOutcome::Received { bytes }) => match Signature::split(&bytes) {
                Some((found, block)) if found == signature && block.len() == self.bytes => return Ok(Some(bytes)),
                Some((found, _)) if found.number > signature.number => self.misfit = true,
                found => return Err(group.calls().odd(self.from, found.map(|(found, _)| found), signature)),
            },
            Some(RecvOutcome::TooShort { .. }) => self.misfit = true,
            // The block was lost with its sender, or the sender is heard but has not replied for
            // long.
            Some(RecvOutcome::PeerGone) => {
                let (from, cause) = (signature.number, Cause::Cut { one: self.from, other: group.rank() });
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
        match group.calls().misfit(self.from, signature).filter(|_| self.misfit) {
            Some(failure) => Err(failure),
            None => Ok(None),
        }
    }
}
