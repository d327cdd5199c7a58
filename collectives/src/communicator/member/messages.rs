//! Messages between two ranks, and their outcomes.

use super::pending::Pending;
use crate::communicator::error::CommunicatorError;
use ethbcast_transport::messages::{
    Completion, Mailbox, RecvError, RecvId, RecvOutcome, SendError, SendId, SendOutcome,
};
use ethbcast_transport::wire::{Frame, Rank};
use ethbcast_transport::{Deadline, Instant, Part};
use std::sync::Arc;

pub(in crate::communicator) const FIRST_RESERVED_TAG: u32 = 1 << 31;
/// Limit of untaken outcomes, and of sends or receives under way, for each kind.
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
        Messages { mailbox, sends: Pending::default(), receives: Pending::default() }
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

    /// Sends a message of a collective, whose outcome is not wanted. To a rank that is gone nothing
    /// is sent; its absence is detected elsewhere.
    pub(in crate::communicator) fn send_internal(&mut self, to: Rank, tag: u32, bytes: Arc<[u8]>) -> Handover {
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
    if tag < FIRST_RESERVED_TAG { Ok(()) } else { Err(CommunicatorError::Tag { tag }) }
}
