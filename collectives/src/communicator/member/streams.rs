//! Broadcast streams of a communicator: one for each sending rank and route, created on first use.

use super::agreement::Neighbours;
use super::plans::{Plans, TreePlace};
use super::waits::Pending;
use super::way::{MessagePath, StreamName};
use crate::communicator::error::CommunicatorError;
use crate::communicator::signature::Signature;
use crate::keys::RankCipher;
use ethbcast_planning::model::Calibration;
use ethbcast_transport::messages::{
    Completion, Mailbox, MessageCipher, RecvError, RecvId, RecvOutcome, SendError, SendId,
    SendOutcome,
};
use ethbcast_transport::stream::{Ending, Memory, Run, Stream, StreamStats};
use ethbcast_transport::wire::{Frame, Kind, Rank, StreamId};
use ethbcast_transport::{Agenda, AuditError, Deadline, Instant, Part};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
struct Slot {
    stream: Stream,
    source: Option<Rank>,
    midway: bool,
}

#[derive(Clone, Debug)]
pub(in crate::communicator) struct Streams {
    neighbours: Neighbours,
    slots: BTreeMap<StreamName, Box<Slot>>,
    agenda: Agenda,
    cipher: Option<Arc<RankCipher>>,
    forged_acks: u64,
    non_members: u64,
}

impl Streams {
    pub(super) fn new(neighbours: Neighbours) -> Streams {
        Streams {
            neighbours,
            slots: BTreeMap::new(),
            agenda: Agenda::default(),
            cipher: None,
            forged_acks: 0,
            non_members: 0,
        }
    }

    pub(in crate::communicator) fn payload_bytes(&self) -> usize {
        self.neighbours.payload_bytes()
    }

    /// Returns the maximum bytes of the next frame of a message with `written` bytes written, while
    /// its pushed part lasts.
    pub(in crate::communicator) fn unpushed(&self, name: StreamName, written: usize) -> usize {
        let pushed = self.neighbours.push_bytes(name);
        pushed
            .and_then(|pushed| pushed.checked_sub(written))
            .filter(|&left| left > 0)
            .unwrap_or(usize::MAX)
    }

    pub(in crate::communicator) fn plans(&mut self) -> &mut Plans {
        self.neighbours.plans()
    }

    pub(in crate::communicator) fn place(&mut self, name: StreamName) -> TreePlace {
        self.neighbours.place(name).clone()
    }

    pub(super) fn set_calibration(&mut self, calibration: Calibration) {
        self.neighbours.set_calibration(calibration);
    }

    pub(super) fn is_cast(&self, number: StreamId) -> bool {
        self.neighbours
            .name_of(number)
            .is_some_and(|name| name.way == MessagePath::Cast)
    }

    pub(in crate::communicator) fn push(
        &mut self,
        now: Instant,
        name: StreamName,
        payload: &[u8],
        ending: Ending,
    ) -> bool {
        let (number, cipher) = (name.number(self.neighbours.size()), self.cipher.clone());
        let stream = &mut self.open(name).stream;
        let taken = match cipher {
            // Relays and repeats forward what is encrypted here, once.
            Some(cipher) if stream.has_room() => {
                let mut sealed = payload.to_vec();
                cipher.frame(number, stream.position(), 0, &mut sealed);
                stream.push(&sealed, ending)
            }
            Some(_) => false,
            None => stream.push(payload, ending),
        };
        if taken {
            self.touch(now, name);
        }
        taken
    }

    /// Returns the signature in front of the next message; `None` if nothing has arrived, and
    /// `Some(None)` if it is none.
    pub(in crate::communicator) fn signature(&self, name: StreamName) -> Option<Option<Signature>> {
        self.signature_in(name, self.slots.get(&name)?)
    }

    fn signature_in(&self, name: StreamName, slot: &Slot) -> Option<Option<Signature>> {
        let (payload, _) = slot.stream.peek()?;
        let Some(head) = payload.first_chunk::<{ Signature::BYTES }>() else {
            return Some(None);
        };
        let mut head = *head;
        self.decrypt_in(name, slot, 0, &mut head);
        Some(Signature::split(&head).map(|(found, _)| found))
    }

    /// Decrypts bytes of the next frames, which begin at `offset` in the first of them. All but the
    /// last are filled.
    pub(in crate::communicator) fn decrypt(
        &self,
        name: StreamName,
        offset: usize,
        bytes: &mut [u8],
    ) {
        if let Some(slot) = self.slots.get(&name) {
            self.decrypt_in(name, slot, offset, bytes);
        }
    }

    fn decrypt_in(&self, name: StreamName, slot: &Slot, offset: usize, bytes: &mut [u8]) {
        let Some(cipher) = &self.cipher else { return };
        let number = name.number(self.neighbours.size());
        let (first, frame_bytes) = (slot.stream.position(), slot.stream.payload_bytes());
        let in_first = (frame_bytes - offset).min(bytes.len());
        let (head, rest) = bytes.split_at_mut(in_first);
        cipher.frame(number, first, offset as u64, head);
        for (frame, sequence) in rest.chunks_mut(frame_bytes).zip(first + 1..) {
            cipher.frame(number, sequence, 0, frame);
        }
    }

    pub(super) fn set_cipher(&mut self, cipher: Arc<RankCipher>) {
        self.cipher = Some(cipher);
    }

    pub(in crate::communicator) fn peek_run(&self, name: StreamName, most: u64) -> Option<Run<'_>> {
        self.slots.get(&name)?.stream.peek_run(most)
    }

    pub(in crate::communicator) fn consume(
        &mut self,
        now: Instant,
        name: StreamName,
        frames: u64,
        midway: bool,
    ) {
        if let Some(slot) = self.slots.get_mut(&name) {
            slot.stream.consume_run(now, frames);
            slot.midway = midway;
        }
    }

    pub(in crate::communicator) fn expect_frames(&mut self, name: StreamName, frames: u64) {
        if let Some(slot) = self.slots.get_mut(&name) {
            let position = slot.stream.position();
            slot.stream.expect_message_end(position + frames);
        }
    }

    pub(in crate::communicator) fn drained(&mut self, now: Instant, name: StreamName) {
        self.touch(now, name);
    }

    pub(in crate::communicator) fn source(&self, name: StreamName) -> Option<Rank> {
        self.slots.get(&name)?.source
    }

    pub(in crate::communicator) fn parent(&mut self, name: StreamName) -> Option<Rank> {
        self.neighbours.parent(name).map(|parent| parent.rank)
    }

    pub(in crate::communicator) fn of_origin(
        &self,
        origin: Rank,
    ) -> impl Iterator<Item = StreamName> + '_ {
        let from = StreamName::first_of(origin);
        self.slots
            .range(from..)
            .map(|(&name, _)| name)
            .take_while(move |name| name.origin == origin)
    }

    pub(in crate::communicator) fn held_up_by(&self, name: StreamName) -> Option<Rank> {
        self.slots.get(&name)?.stream.held_up_by()
    }

    /// Returns the streams with a message of which nothing has been read, and its signature.
    pub(super) fn unread(&self) -> impl Iterator<Item = (StreamName, Option<Signature>)> + '_ {
        self.existing()
            .filter(|(_, slot)| !slot.midway)
            .filter_map(|(name, slot)| Some((name, self.signature_in(name, slot)?)))
    }

    fn existing(&self) -> impl Iterator<Item = (StreamName, &Slot)> + '_ {
        self.slots.iter().map(|(&name, slot)| (name, &**slot))
    }

    fn open(&mut self, name: StreamName) -> &mut Slot {
        let neighbours = &mut self.neighbours;
        self.slots.entry(name).or_insert_with(|| {
            let source = neighbours.parent(name).map(|parent| parent.rank);
            Box::new(Slot {
                stream: neighbours.open(name),
                source,
                midway: false,
            })
        })
    }

    pub(super) fn remove_reader(&mut self, now: Instant, rank: Rank) {
        self.neighbours.remove(rank);
        let names: Vec<StreamName> = self.existing().map(|(name, _)| name).collect();
        for name in names {
            if let Some(slot) = self.slots.get_mut(&name) {
                slot.stream.remove_reader(now, rank);
                self.touch(now, name);
            }
        }
    }

    pub(super) fn discard(&mut self, now: Instant) {
        let waiting = self
            .existing()
            .filter(|(_, slot)| slot.stream.backlog_frames() > 0);
        let names: Vec<StreamName> = waiting.map(|(name, _)| name).collect();
        for name in names {
            while let Some(frames) = self.peek_run(name, u64::MAX).map(|run| run.frames) {
                self.consume(now, name, frames, true);
            }
            self.drained(now, name);
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.existing().all(|(_, slot)| {
            let head = slot.stream.feed().head();
            slot.stream
                .cursors()
                .iter()
                .all(|&(_, cursor)| cursor == head)
        })
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.agenda.is_idle()
    }

    fn touch(&mut self, now: Instant, name: StreamName) {
        if let Some(slot) = self.slots.get(&name) {
            self.agenda.touch(
                name.number(self.neighbours.size()).0,
                slot.stream.poll_timeout(now),
            );
        }
    }

    pub(super) fn stats(&self) -> StreamStats {
        let mut counted = StreamStats::default();
        (counted.forged_acks, counted.non_members) = (self.forged_acks, self.non_members);
        self.existing()
            .map(|(_, slot)| slot.stream.stats())
            .fold(counted, |sum, stats| sum + stats)
    }

    pub(super) fn memory(&self) -> Memory {
        self.existing()
            .map(|(_, slot)| slot.stream.memory())
            .fold(Memory::default(), |sum, one| sum + one)
    }

    pub(super) fn audit(&self) -> Result<(), AuditError> {
        let within = |name: StreamName, error: AuditError| {
            error.within(format_args!("{:?} of rank {}", name.way, name.origin))
        };
        self.existing()
            .try_for_each(|(name, slot)| slot.stream.audit().map_err(|error| within(name, error)))
    }
}

impl Part for Streams {
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        let Some(name) = self.neighbours.name_of(frame.header.stream) else {
            self.non_members += 1;
            return;
        };
        if !self.slots.contains_key(&name) {
            // A stream that has not begun has nothing to acknowledge; a repair child may receive a
            // frame of it before its parent.
            match frame.header.kind {
                Kind::ACK if name.origin == self.neighbours.rank() => self.forged_acks += 1,
                Kind::ACK => {}
                _ if !self.neighbours.can_begin(name, frame.header.rank) => self.non_members += 1,
                _ => {
                    self.open(name);
                }
            }
        }
        if let Some(slot) = self.slots.get_mut(&name) {
            slot.stream.handle_frame(now, frame);
            self.touch(now, name);
        }
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        self.agenda.next_deadline()
    }

    fn handle_timeout(&mut self, now: Instant) {
        let due: Vec<u16> = self.agenda.due(now).collect();
        for at in due {
            if let Some(slot) = self
                .neighbours
                .name_of(StreamId(at))
                .and_then(|name| self.slots.get_mut(&name))
            {
                slot.stream.handle_timeout(now);
                self.agenda.touch(at, slot.stream.poll_timeout(now));
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let Streams {
            neighbours, slots, ..
        } = self;
        self.agenda.poll(|at| {
            match neighbours
                .name_of(StreamId(at))
                .and_then(|name| slots.get_mut(&name))
            {
                Some(slot) => (
                    slot.stream.poll_transmit(now, buffer),
                    slot.stream.poll_timeout(now),
                ),
                None => (None, None),
            }
        })
    }

    /// Whether all streams in use are at the beginning or end of a message.
    fn is_urgent(&self) -> bool {
        let slot = |at| self.slots.get(&self.neighbours.name_of(StreamId(at))?);
        self.agenda
            .armed()
            .filter_map(slot)
            .all(|slot| slot.stream.is_urgent())
    }
}

pub(in crate::communicator) const FIRST_RESERVED_TAG: u32 = 1 << 31;
/// Maximum number of outcomes not taken, and of sends or receives in progress, for each kind.
const MAX_ASKED: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::communicator) enum Handover {
    Sent(SendId),
    Nobody,
    Full,
}

#[derive(Clone, Debug)]
pub(in crate::communicator) struct Messages {
    mailbox: Mailbox,
    sends: Pending<SendId, SendOutcome>,
    receives: Pending<RecvId, RecvOutcome>,
}

impl Messages {
    pub(super) fn new(mailbox: Mailbox) -> Messages {
        Messages {
            mailbox,
            sends: Pending::default(),
            receives: Pending::default(),
        }
    }

    pub(super) fn set_cipher(&mut self, cipher: Arc<dyn MessageCipher>) {
        self.mailbox.set_cipher(cipher);
    }

    pub(super) fn send(
        &mut self,
        to: Rank,
        tag: u32,
        bytes: impl Into<Arc<[u8]>>,
        deadline: Option<Instant>,
    ) -> Result<SendId, CommunicatorError> {
        check_tag(tag)?;
        let id = match self.sends.wanted() {
            messages if messages >= MAX_ASKED => Err(SendError::QueueFull { messages, bytes: 0 }),
            _ => self.mailbox.send_until(to, tag, bytes, deadline),
        };
        let id = id.map_err(CommunicatorError::Sends)?;
        self.sends.add(id);
        self.collect();
        Ok(id)
    }

    pub(super) fn recv(
        &mut self,
        from: Rank,
        tag: u32,
        max_bytes: usize,
        deadline: Option<Instant>,
    ) -> Result<RecvId, CommunicatorError> {
        check_tag(tag)?;
        let id = match self.receives.wanted() {
            receives if receives >= MAX_ASKED => Err(RecvError::QueueFull { receives }),
            _ => self.mailbox.recv_until(from, tag, max_bytes, deadline),
        };
        let id = id.map_err(CommunicatorError::Receives)?;
        self.receives.add(id);
        self.collect();
        Ok(id)
    }

    /// Sends a message of a collective, whose outcome is not wanted. A rank that is gone is sent
    /// nothing; its absence is detected elsewhere.
    pub(in crate::communicator) fn send_internal(
        &mut self,
        to: Rank,
        tag: u32,
        bytes: Arc<[u8]>,
    ) -> Handover {
        match self.mailbox.send(to, tag, bytes) {
            Ok(id) => {
                self.sends.add(id);
                self.sends.ignore(id);
                self.collect();
                Handover::Sent(id)
            }
            Err(SendError::QueueFull { .. }) => Handover::Full,
            Err(SendError::PeerGone { .. } | SendError::NoSuchRank { .. }) => Handover::Nobody,
        }
    }

    pub(in crate::communicator) fn has_gone(&self, id: SendId) -> bool {
        self.mailbox.has_gone(id)
    }

    pub(in crate::communicator) fn has_unexpected(&self, from: Rank, tag: u32) -> bool {
        self.mailbox.has_unexpected(from, tag)
    }

    pub(in crate::communicator) fn receive_internal(
        &mut self,
        from: Rank,
        tag: u32,
        max_bytes: usize,
    ) -> Option<RecvId> {
        let id = self.mailbox.recv(from, tag, max_bytes).ok()?;
        self.receives.add(id);
        self.collect();
        Some(id)
    }

    pub(in crate::communicator) fn drop_receive(&mut self, id: RecvId) {
        if !self.cancel_recv(id) {
            self.receives.ignore(id);
        }
    }

    pub(super) fn take_sent(&mut self, id: SendId) -> Option<SendOutcome> {
        self.sends.take(id)
    }

    pub(in crate::communicator) fn take_received(&mut self, id: RecvId) -> Option<RecvOutcome> {
        self.receives.take(id)
    }

    pub(super) fn ignore_sent(&mut self, id: SendId) {
        self.mailbox.lift_deadline(id);
        self.sends.ignore(id);
    }

    pub(super) fn cancel_send(&mut self, id: SendId) -> bool {
        let cancelled = self.mailbox.cancel_send(id);
        if cancelled {
            self.sends.forget(id);
        }
        cancelled
    }

    pub(super) fn cancel_recv(&mut self, id: RecvId) -> bool {
        let cancelled = self.mailbox.cancel_recv(id);
        if cancelled {
            self.receives.forget(id);
        }
        cancelled
    }

    pub(super) fn cancel_receives(&mut self) {
        for id in self.receives.open() {
            self.cancel_recv(id);
        }
    }

    pub(super) fn remove_peer(&mut self, rank: Rank) {
        self.mailbox.remove_peer(rank);
        self.collect();
    }

    pub(super) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    fn collect(&mut self) {
        while let Some(completion) = self.mailbox.poll_completion() {
            match completion {
                Completion::Send { id, outcome } => self.sends.settle(id, outcome),
                Completion::Recv { id, outcome } => self.receives.settle(id, outcome),
            }
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.mailbox.is_quiet()
    }
}

impl Part for Messages {
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        self.mailbox.handle_frame(now, frame);
        self.collect();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.mailbox.handle_timeout(now);
        self.collect();
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.mailbox.poll_transmit(now, buffer)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        self.mailbox.poll_timeout(now)
    }

    fn is_urgent(&self) -> bool {
        self.sends.are_awaited() || self.receives.are_awaited()
    }
}

fn check_tag(tag: u32) -> Result<(), CommunicatorError> {
    if tag < FIRST_RESERVED_TAG {
        Ok(())
    } else {
        Err(CommunicatorError::Tag { tag })
    }
}
