//! Queues of the application's open sends and receives, with deadlines, and of completed ones.

use super::settings::{
    Completion, MailboxStats, MessageCipher, RecvId, RecvOutcome, SendId, SendOutcome,
};
use crate::arq::stamp::{Stamp, Stamps};
use crate::machine::AuditError;
use crate::time::Instant;
use crate::wire::{Flags, Header, Identity, Kind, MacAddr, Rank};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub(super) struct SendState {
    pub to: Rank,
    bytes: usize,
    deadline: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(super) struct RecvState {
    pub from: Rank,
    pub tag: u32,
    pub max_bytes: usize,
    pub message: Option<u64>,
    deadline: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Send(SendId),
    Recv(RecvId),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Operations {
    next_id: u64,
    sends: BTreeMap<SendId, SendState>,
    send_bytes: usize,
    receives: BTreeMap<RecvId, RecvState>,
    posted: BTreeMap<(Rank, u32), VecDeque<RecvId>>,
    deadlines: BTreeSet<(Instant, Operation)>,
    open: BTreeMap<Rank, usize>,
    done: VecDeque<Completion>,
    done_sends: usize,
}

impl Operations {
    pub(super) fn sends(&self) -> (usize, usize) {
        (self.sends.len() + self.done_sends, self.send_bytes)
    }

    pub(super) fn receives(&self) -> usize {
        self.receives.len() + self.done.len() - self.done_sends
    }

    pub(super) fn add_send(&mut self, to: Rank, bytes: usize, deadline: Option<Instant>) -> SendId {
        let id = SendId::new(self.draw());
        self.sends.insert(
            id,
            SendState {
                to,
                bytes,
                deadline,
            },
        );
        self.send_bytes += bytes;
        *self.open.entry(to).or_default() += 1;
        self.deadlines
            .extend(deadline.map(|at| (at, Operation::Send(id))));
        id
    }

    pub(super) fn add_receive(
        &mut self,
        from: Rank,
        tag: u32,
        max_bytes: usize,
        deadline: Option<Instant>,
    ) -> RecvId {
        let id = RecvId::new(self.draw());
        self.receives.insert(
            id,
            RecvState {
                from,
                tag,
                max_bytes,
                message: None,
                deadline,
            },
        );
        self.posted.entry((from, tag)).or_default().push_back(id);
        *self.open.entry(from).or_default() += 1;
        self.deadlines
            .extend(deadline.map(|at| (at, Operation::Recv(id))));
        id
    }

    fn draw(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn send(&self, id: SendId) -> Option<SendState> {
        self.sends.get(&id).copied()
    }

    pub(super) fn receive(&self, id: RecvId) -> Option<&RecvState> {
        self.receives.get(&id)
    }

    pub(super) fn match_receive(
        &mut self,
        from: Rank,
        tag: u32,
        message: u64,
    ) -> Option<(RecvId, usize)> {
        let queue = self.posted.get_mut(&(from, tag))?;
        let id = queue.pop_front()?;
        if queue.is_empty() {
            self.posted.remove(&(from, tag));
        }
        let receiving = self.receives.get_mut(&id)?;
        receiving.message = Some(message);
        Some((id, receiving.max_bytes))
    }

    pub(super) fn end_send(&mut self, id: SendId, outcome: SendOutcome) {
        if self.forget_send(id) {
            self.done_sends += 1;
            self.done.push_back(Completion::Send { id, outcome });
        }
    }

    pub(super) fn end_receive(&mut self, id: RecvId, outcome: RecvOutcome) {
        if self.forget_receive(id) {
            self.done.push_back(Completion::Recv { id, outcome });
        }
    }

    pub(super) fn forget_send(&mut self, id: SendId) -> bool {
        let Some(sending) = self.sends.remove(&id) else {
            return false;
        };
        self.send_bytes -= sending.bytes;
        self.close(sending.to);
        if let Some(at) = sending.deadline {
            self.deadlines.remove(&(at, Operation::Send(id)));
        }
        true
    }

    pub(super) fn lift_deadline(&mut self, id: SendId) {
        if let Some(at) = self
            .sends
            .get_mut(&id)
            .and_then(|sending| sending.deadline.take())
        {
            self.deadlines.remove(&(at, Operation::Send(id)));
        }
    }

    pub(super) fn forget_receive(&mut self, id: RecvId) -> bool {
        let Some(receiving) = self.receives.remove(&id) else {
            return false;
        };
        self.close(receiving.from);
        if let Some(at) = receiving.deadline {
            self.deadlines.remove(&(at, Operation::Recv(id)));
        }
        let key = (receiving.from, receiving.tag);
        if receiving.message.is_none()
            && let Some(queue) = self.posted.get_mut(&key)
        {
            queue.retain(|&other| other != id);
            if queue.is_empty() {
                self.posted.remove(&key);
            }
        }
        true
    }

    fn close(&mut self, peer: Rank) {
        if let Entry::Occupied(mut open) = self.open.entry(peer) {
            *open.get_mut() -= 1;
            if *open.get() == 0 {
                open.remove();
            }
        }
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = Rank> {
        self.open.keys().copied()
    }

    pub(super) fn posted_from(&self, from: Rank) -> Vec<RecvId> {
        self.posted
            .range((from, 0)..=(from, u32::MAX))
            .flat_map(|(_, queue)| queue)
            .copied()
            .collect()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    pub(super) fn overdue(&self, now: Instant) -> Option<Operation> {
        self.deadlines
            .first()
            .filter(|&&(at, _)| at <= now)
            .map(|&(_, asked)| asked)
    }

    pub(super) fn take(&mut self) -> Option<Completion> {
        let completion = self.done.pop_front()?;
        self.done_sends -= usize::from(matches!(completion, Completion::Send { .. }));
        Some(completion)
    }

    pub(super) fn receive_memory_bytes(&self) -> usize {
        let posted: usize = self
            .posted
            .values()
            .map(|queue| queue.capacity() * size_of::<RecvId>())
            .sum();
        self.receives.len() * size_of::<(RecvId, RecvState)>() + posted
    }

    pub(super) fn audit(&self) -> Result<(), AuditError> {
        let bytes: usize = self.sends.values().map(|sending| sending.bytes).sum();
        if bytes != self.send_bytes {
            return Err(AuditError::new(format!(
                "{} bytes counted in the send queue, {bytes} there",
                self.send_bytes
            )));
        }
        let unmatched = self
            .receives
            .values()
            .filter(|receiving| receiving.message.is_none())
            .count();
        let posted: usize = self.posted.values().map(VecDeque::len).sum();
        if unmatched != posted {
            return Err(AuditError::new(format!(
                "{unmatched} receives without a message, {posted} posted"
            )));
        }
        let deadlines = self
            .sends
            .values()
            .filter_map(|sending| sending.deadline)
            .count()
            + self
                .receives
                .values()
                .filter_map(|receiving| receiving.deadline)
                .count();
        let open: usize = self.open.values().sum();
        if open != self.sends.len() + self.receives.len() {
            return Err(AuditError::new(format!(
                "{open} sends and receives counted by peer, {} and {} there",
                self.sends.len(),
                self.receives.len()
            )));
        }
        if deadlines != self.deadlines.len() {
            return Err(AuditError::new(format!(
                "{deadlines} deadlines asked for, {} kept",
                self.deadlines.len()
            )));
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub(super) struct MailboxCore {
    pub identity: Identity,
    pub payload_bytes: usize,
    pub stamps: Stamps,
    pub hash_list: Operations,
    pub stats: MailboxStats,
    pub cipher: Option<Arc<dyn MessageCipher>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Label(pub Kind, pub Flags, pub u64, pub Stamp);

impl MailboxCore {
    pub(super) fn seal(
        &self,
        to: MacAddr,
        label: Label,
        buffer: &mut [u8],
        payload_bytes: usize,
    ) -> usize {
        let Label(kind, flags, sequence, stamp) = label;
        let header = Header {
            flags,
            sequence,
            stamp: stamp.0,
            ..self.identity.header(kind)
        };
        self.identity.seal(buffer, to, &header, payload_bytes)
    }
}
