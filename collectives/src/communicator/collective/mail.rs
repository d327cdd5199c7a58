//! One message of a collective between two ranks: its signature, then its bytes.

use crate::communicator::failure::{Cause, Failure};
use crate::communicator::member::{FIRST_RESERVED_TAG, Group, Handover};
use crate::communicator::signature::Signature;
use ethbcast_transport::messages::{RecvId, RecvOutcome, SendId};
use ethbcast_transport::wire::Rank;
use std::sync::Arc;

/// The tag of all these messages: between two ranks they come in the order of the calls.
const TAG: u32 = FIRST_RESERVED_TAG;

/// A block on its way to a rank.
#[derive(Clone, Debug)]
pub(super) struct BlockToSend {
    to: Rank,
    /// The message, once it is made and until it is handed over.
    message: Option<Arc<[u8]>>,
    handed: Option<Handover>,
}

impl BlockToSend {
    pub(super) fn new(to: Rank) -> BlockToSend {
        BlockToSend { to, message: None, handed: None }
    }

    /// Hands these blocks over as one; false while the send queue is full. If the rank is not there any more, that
    /// shows elsewhere.
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

    /// The message, once it has been handed over to somebody.
    pub(super) fn id(&self) -> Option<SendId> {
        match self.handed {
            Some(Handover::Sent(id)) => Some(id),
            _ => None,
        }
    }

    /// To whom it goes, while it waits for room.
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

/// Whether a block has begun to come from a rank that nobody awaits.
pub(super) fn has_begun(group: &mut Group, from: Rank) -> bool {
    group.messages().has_unexpected(from, TAG)
}

/// Blocks awaited from several ranks, or several from one.
#[derive(Clone, Debug, Default)]
pub(super) struct AwaitedBlocks {
    awaited: Vec<AwaitedBlock>,
}

#[derive(Clone, Debug)]
struct AwaitedBlock {
    from: Rank,
    bytes: usize,
    /// The receive, once there was room for it.
    id: Option<RecvId>,
    /// A longer message or one of a later call has come in its place.
    misfit: bool,
}

impl AwaitedBlocks {
    /// Awaits a block from a rank. It is asked for at once, so that it need not wait in between when it comes.
    pub(super) fn add(&mut self, group: &mut Group, from: Rank, bytes: usize) {
        let mut inbound = AwaitedBlock { from, bytes, id: None, misfit: false };
        inbound.ask(group);
        self.awaited.push(inbound);
    }

    /// One that has come, signature in front, and its place among those awaited; of several from one rank the one
    /// awaited longest.
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

    /// Whether none is awaited any more, where no block has any bytes.
    pub(super) fn have_come(&mut self, group: &mut Group, signature: Signature) -> Result<bool, Failure> {
        while self.take_any(group, signature)?.is_some() {}
        Ok(self.awaited.is_empty())
    }

    /// The block awaited longest, signature in front, if it has come. From one rank blocks may come in another order
    /// than they were sent.
    pub(super) fn take_first(&mut self, group: &mut Group, signature: Signature) -> Result<Option<Vec<u8>>, Failure> {
        let Some(inbound) = self.awaited.first_mut() else { return Ok(None) };
        let message = inbound.poll(group, signature)?;
        if message.is_some() {
            self.awaited.remove(0);
        }
        Ok(message)
    }

    /// How many are awaited.
    pub(super) fn count(&self) -> usize {
        self.awaited.len()
    }

    /// From whom the one awaited longest is to come.
    pub(super) fn waits_for(&self) -> Option<Rank> {
        self.awaited.first().map(|inbound| inbound.from)
    }

    /// None is awaited any more.
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

    /// The message, signature and all, if it has come.
    fn poll(&mut self, group: &mut Group, signature: Signature) -> Result<Option<Vec<u8>>, Failure> {
        self.ask(group);
        match self.id.and_then(|id| group.messages().take_received(id)) {
            Some(RecvOutcome::Received { bytes }) => match Signature::split(&bytes) {
                Some((found, block)) if found == signature && block.len() == self.bytes => return Ok(Some(bytes)),
                Some((found, _)) if found.number > signature.number => self.misfit = true,
                found => return Err(group.calls().odd(self.from, found.map(|(found, _)| found), signature)),
            },
            Some(RecvOutcome::TooShort { .. }) => self.misfit = true,
            // Its block was lost with it; or it is heard, and has not answered for long.
            Some(RecvOutcome::PeerGone) => {
                let (from, cause) = (signature.number, Cause::Cut { one: self.from, other: group.rank() });
                let absence = group.calls().absence(self.from, signature.number);
                return Err(absence.unwrap_or(Failure { from, cause }));
            }
            // That does not happen to collectives.
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
