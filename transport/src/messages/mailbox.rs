//! Point-to-point messages (*mailbox*): the application's send and receive calls, over all peers.

use super::channel::Channel;
use super::operations::{MailboxCore, Operation, Operations};
use super::settings::{
    Completion, MailboxMemory, MailboxStats, MessageCipher, RecvError, RecvId, RecvOutcome,
    SendError, SendId, SendOutcome, Settings,
};
use crate::agenda::Agenda;
use crate::arq::stamp::Stamps;
use crate::machine::{AuditError, Deadline, Part, Timer};
use crate::time::Instant;
use crate::wire::{Frame, Identity, Kind, Peer, Rank, Reject};
use std::sync::Arc;

/// Shortest payload of a frame: a note with the longest bitmap fits, and an MTU of 576 has room for
/// more.
const MIN_PAYLOAD_BYTES: usize = 256;

/// Point-to-point messages of one host with all others.
///
/// A send or a receive is requested and proceeds by itself;
/// [`poll_completion`](Mailbox::poll_completion) returns its outcome. Blocking calls are built on
/// top: request, then drive the machine until the completion is there. A non-blocking call
/// requests, and [cancels](Mailbox::cancel_recv) at once what has not ended.
#[derive(Clone, Debug)]
pub struct Mailbox {
    settings: Settings,
    channels: Vec<Channel>,
    endpoint: MailboxCore,
    agenda: Agenda,
}

impl Mailbox {
    /// Creates a mailbox among `peers`, listed by rank, this host included; frames carry up to
    /// `payload_bytes` (the MTU − 32).
    ///
    /// # Panics
    /// If a peer's rank is not its index in the list, the own rank is not in it, `payload_bytes` is
    /// below 256, or [`Tuning::check`](crate::Tuning::check) finds a wrong number in the settings.
    pub fn new(
        identity: Identity,
        peers: &[Peer],
        payload_bytes: usize,
        settings: Settings,
    ) -> Mailbox {
        assert!(
            payload_bytes >= MIN_PAYLOAD_BYTES,
            "a frame of a mailbox carries at least {MIN_PAYLOAD_BYTES} bytes"
        );
        assert!(
            peers
                .iter()
                .enumerate()
                .all(|(rank, peer)| peer.rank.index() == rank),
            "peers are listed by rank"
        );
        assert!(
            identity.rank.index() < peers.len(),
            "the own rank is one of the peers'"
        );
        settings.tuning.assert_valid();
        let share = settings.share(peers.len());
        let channels = peers
            .iter()
            .map(|&peer| Channel::new(peer, payload_bytes, share, &settings))
            .collect();
        let endpoint = MailboxCore {
            identity,
            payload_bytes,
            stamps: Stamps::default(),
            hash_list: Operations::default(),
            stats: MailboxStats::default(),
            cipher: None,
        };
        Mailbox {
            settings,
            channels,
            endpoint,
            agenda: Agenda::default(),
        }
    }

    /// Encrypts the contents of all messages, in both directions.
    #[doc(hidden)]
    pub fn set_cipher(&mut self, cipher: Arc<dyn MessageCipher>) {
        self.endpoint.cipher = Some(cipher);
    }

    /// Sends `bytes` to rank `to`; see [`send_until`](Mailbox::send_until).
    ///
    /// # Errors
    /// The errors of `send_until`.
    pub fn send(
        &mut self,
        to: Rank,
        tag: u32,
        bytes: impl Into<Arc<[u8]>>,
    ) -> Result<SendId, SendError> {
        self.send_until(to, tag, bytes, None)
    }

    /// Sends `bytes` to rank `to`, in order with earlier sends to it under this `tag`; a message
    /// that has not arrived by the `deadline` is withdrawn. The bytes are kept, not copied, until
    /// the other host has them.
    ///
    /// # Errors
    /// If there is no such rank, it was given up as silent, or the send queue is full; nothing is
    /// taken then.
    pub fn send_until(
        &mut self,
        to: Rank,
        tag: u32,
        bytes: impl Into<Arc<[u8]>>,
        deadline: Option<Instant>,
    ) -> Result<SendId, SendError> {
        let (ranks, bytes) = (self.channels.len(), bytes.into());
        let channel = self
            .channels
            .get_mut(to.index())
            .ok_or(SendError::NoSuchRank { rank: to, ranks })?;
        if channel.is_gone() {
            return Err(SendError::PeerGone { rank: to });
        }
        let (messages, queued) = self.endpoint.hash_list.sends();
        let too_long = queued > 0 && queued + bytes.len() > self.settings.send_bytes;
        if messages >= self.settings.send_messages || too_long {
            return Err(SendError::QueueFull {
                messages,
                bytes: queued,
            });
        }
        let id = self.endpoint.hash_list.add_send(to, bytes.len(), deadline);
        channel.outbox().add(id, tag, bytes);
        self.touch(to);
        Ok(id)
    }

    /// Receives the next message of `tag` from rank `from`; see
    /// [`recv_until`](Mailbox::recv_until).
    ///
    /// # Errors
    /// The errors of `recv_until`.
    pub fn recv(&mut self, from: Rank, tag: u32, max_bytes: usize) -> Result<RecvId, RecvError> {
        self.recv_until(from, tag, max_bytes, None)
    }

    /// Receives the next message of `tag` from rank `from`, in order with the receives posted
    /// before. Ends as [`TooShort`](RecvOutcome::TooShort) if it is longer than `max_bytes`, and as
    /// [`TimedOut`](RecvOutcome::TimedOut) if it has not arrived by the `deadline`.
    ///
    /// # Errors
    /// If there is no such rank or the receive queue is full.
    pub fn recv_until(
        &mut self,
        from: Rank,
        tag: u32,
        max_bytes: usize,
        deadline: Option<Instant>,
    ) -> Result<RecvId, RecvError> {
        let ranks = self.channels.len();
        let channel = self
            .channels
            .get_mut(from.index())
            .ok_or(RecvError::NoSuchRank { rank: from, ranks })?;
        let hash_list = &mut self.endpoint.hash_list;
        if hash_list.receives() >= self.settings.receives {
            return Err(RecvError::QueueFull {
                receives: hash_list.receives(),
            });
        }
        let id = hash_list.add_receive(from, tag, max_bytes, deadline);
        channel.inbox().on_posted(tag, hash_list);
        if channel.is_gone() {
            hash_list.end_receive(id, RecvOutcome::PeerGone);
        }
        self.touch(from);
        Ok(id)
    }

    /// Returns the next send or receive that has ended. Until this, it occupies its place in its
    /// queue.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.endpoint.hash_list.take()
    }

    /// Withdraws a message, which then has no completion. Returns false if it has ended already.
    pub fn cancel_send(&mut self, id: SendId) -> bool {
        let Some(sending) = self.endpoint.hash_list.send(id) else {
            return false;
        };
        self.channels[sending.to.index()].outbox().withdraw(id);
        self.touch(sending.to);
        self.endpoint.hash_list.forget_send(id)
    }

    /// Removes the deadline of a send, whose caller relies on its delivery from now on.
    pub fn lift_deadline(&mut self, id: SendId) {
        self.endpoint.hash_list.lift_deadline(id);
    }

    /// Cancels a receive without a message, which then has no completion. Returns false if a
    /// message has begun to arrive or the receive has ended: its completion follows.
    pub fn cancel_recv(&mut self, id: RecvId) -> bool {
        let waits = self
            .endpoint
            .hash_list
            .receive(id)
            .is_some_and(|receiving| receiving.message.is_none());
        waits && self.endpoint.hash_list.forget_receive(id)
    }

    /// Whether all of a message has been sent at least once, so that its sender may continue; also
    /// true after its end.
    pub fn has_gone(&self, id: SendId) -> bool {
        self.endpoint
            .hash_list
            .send(id)
            .is_none_or(|sending| self.channels[sending.to.index()].has_gone(id))
    }

    /// Whether a message of `tag` from rank `from` has begun to arrive and has no receive.
    pub fn has_unexpected(&self, from: Rank, tag: u32) -> bool {
        self.channels
            .get(from.index())
            .is_some_and(|channel| channel.has_unexpected(tag))
    }

    /// Whether nothing is in progress: no send, no receive that has begun, no completion to take.
    pub fn is_idle(&self) -> bool {
        self.endpoint.hash_list.sends().0 == 0 && self.endpoint.hash_list.receives() == 0
    }

    /// Whether nothing is in progress or pending for a peer, and no timer runs.
    pub fn is_quiet(&self) -> bool {
        self.is_idle() && self.next_deadline().is_none()
    }

    fn next_deadline(&self) -> Option<Deadline> {
        // An expired send or receive means that the application no longer waits for a peer.
        let asked = self.endpoint.hash_list.due().map(|at| Deadline {
            at,
            why: Timer::OPERATION,
        });
        self.agenda.next_deadline().into_iter().chain(asked).min()
    }

    /// Removes rank `rank`, which has left: every send to it and every receive from it ends, except
    /// for messages that have arrived completely.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn remove_peer(&mut self, rank: Rank) {
        let channel = &mut self.channels[rank.index()];
        if !channel.is_gone() {
            channel.give_up(&mut self.endpoint.hash_list);
            self.agenda.arm(rank.0, None);
        }
    }

    /// Returns the counters of the mailbox.
    pub fn stats(&self) -> MailboxStats {
        self.endpoint.stats
    }

    #[doc(hidden)]
    pub fn memory(&self) -> MailboxMemory {
        let total = self
            .channels
            .iter()
            .map(Channel::memory)
            .fold(MailboxMemory::default(), |sum, one| sum + one);
        MailboxMemory {
            receive_queue_bytes: self.endpoint.hash_list.receive_memory_bytes(),
            ..total
        }
    }

    /// Recomputes every count.
    ///
    /// # Errors
    /// The first count that differs.
    #[doc(hidden)]
    pub fn audit(&self) -> Result<(), AuditError> {
        self.endpoint.hash_list.audit()?;
        let (messages, bytes) = self.endpoint.hash_list.sends();
        let queued: usize = self
            .channels
            .iter()
            .map(|channel| channel.queued_bytes())
            .sum();
        if queued != bytes {
            return Err(AuditError::new(format!(
                "{bytes} bytes counted in the send queue of {messages} messages, {queued} kept"
            )));
        }
        self.channels.iter().try_for_each(Channel::audit)
    }

    fn touch(&mut self, rank: Rank) {
        let channel = &mut self.channels[rank.index()];
        if rank == self.endpoint.identity.rank {
            channel.pump_local(&mut self.endpoint);
        } else {
            self.agenda.touch(rank.0, channel.deadline());
        }
    }

    fn expire(&mut self, asked: Operation) {
        let hash_list = &mut self.endpoint.hash_list;
        let rank = match asked {
            Operation::Send(id) => hash_list.send(id).map(|sending| {
                self.channels[sending.to.index()].outbox().withdraw(id);
                hash_list.end_send(id, SendOutcome::TimedOut);
                sending.to
            }),
            Operation::Recv(id) => hash_list
                .receive(id)
                .map(|receiving| (receiving.from, receiving.message))
                .map(|(from, message)| {
                    if let Some(message) = message {
                        self.channels[from.index()].inbox().abandon(message);
                    }
                    hash_list.end_receive(id, RecvOutcome::TimedOut);
                    from
                }),
        };
        if let Some(rank) = rank {
            self.touch(rank);
        }
    }
}

impl Part for Mailbox {
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        let header = frame.header;
        if !matches!(
            header.kind,
            Kind::PUSH | Kind::PULL | Kind::NOTE | Kind::RECEIPT | Kind::ASK
        ) {
            return;
        }
        let identity = &self.endpoint.identity;
        let ours = header.session == identity.session
            && header.stream == identity.stream
            && header.rank != identity.rank;
        let channel = self.channels.get_mut(header.rank.index());
        match channel.filter(|channel| ours && channel.takes_from(frame.source)) {
            Some(channel) => {
                channel.on_frame(now, frame, &mut self.endpoint);
                self.touch(header.rank);
            }
            None => self.endpoint.stats.non_members += 1,
        }
    }

    fn handle_reject(&mut self, reject: Reject) {
        let stats = &mut self.endpoint.stats;
        *(if reject.is_non_member() {
            &mut stats.non_members
        } else {
            &mut stats.malformed
        }) += 1;
    }

    fn handle_timeout(&mut self, now: Instant) {
        let first = |agenda: &Agenda| agenda.due(now).next().map(Rank);
        while let Some(rank) = first(&self.agenda) {
            let channel = &mut self.channels[rank.index()];
            if channel.on_timeout(now, &self.settings) {
                log::warn!(
                    "rank {rank} has not answered, or lacked data that it had acknowledged, for {:?}: given up",
                    self.settings.silent_after
                );
                self.remove_peer(rank);
            } else {
                debug_assert!(
                    channel.deadline().is_none_or(|next| next.at > now),
                    "what was due is not due any more"
                );
                self.touch(rank);
            }
        }
        while let Some(asked) = self.endpoint.hash_list.overdue(now) {
            self.expire(asked);
        }
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let (channels, endpoint) = (&mut self.channels, &mut self.endpoint);
        self.agenda.poll(|rank| {
            let channel = &mut channels[usize::from(rank)];
            (channel.poll(now, endpoint, buffer), channel.deadline())
        })
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        self.next_deadline()
    }

    fn is_urgent(&self) -> bool {
        self.endpoint
            .hash_list
            .peers()
            .any(|rank| self.channels[rank.index()].is_urgent())
    }
}
