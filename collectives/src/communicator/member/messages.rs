//! Messages between two ranks, as the application asks for them.

use super::{Group, Member};
use crate::communicator::error::CommunicatorError;
use ethbcast_transport::Instant;
use ethbcast_transport::messages::{RecvError, RecvId, RecvOutcome, SendError, SendId, SendOutcome};
use std::sync::Arc;

/// Tags from here on are the collectives' own.
pub(in crate::communicator) const FIRST_RESERVED_TAG: u32 = 1 << 31;
/// Outcomes that may wait to be taken, and sends or receives that may be under way, of each kind.
const MOST_ASKED: usize = 1024;

impl Member {
    /// Sends `bytes` to rank `to`, in order with what was sent there before under the same `tag`; withdrawn if it is not there by
    /// the `deadline`. The bytes are kept, not copied. The [outcome](Member::take_sent) is kept until it is taken.
    ///
    /// # Errors
    /// If the group is not complete, there is no such rank, it is not there any more, the tag is 2³¹ or above, or too many messages
    /// are on their way.
    pub fn send(
        &mut self,
        to: u16,
        tag: u32,
        bytes: impl Into<Arc<[u8]>>,
        deadline: Option<Instant>,
    ) -> Result<SendId, CommunicatorError> {
        let group = self.group()?;
        group.check_presence(to)?;
        check_tag(tag)?;
        let id = match group.outcomes.sends() {
            messages if messages >= MOST_ASKED => Err(SendError::QueueFull { messages, bytes: 0 }),
            _ => group.mailbox.send_until(to, tag, bytes, deadline),
        };
        let id = id.map_err(CommunicatorError::Sends)?;
        group.outcomes.await_send(id);
        group.outcomes.collect(&mut group.mailbox);
        Ok(id)
    }

    /// Receives the next message of `tag` from rank `from`, in order with the receives asked for before. The
    /// [outcome](Member::take_received) is kept until it is taken.
    ///
    /// # Errors
    /// If the group is not complete, there is no such rank, the tag is 2³¹ or above, or too many receives wait.
    pub fn recv(&mut self, from: u16, tag: u32, max_bytes: usize, deadline: Option<Instant>) -> Result<RecvId, CommunicatorError> {
        let group = self.group()?;
        group.check_rank(from)?;
        check_tag(tag)?;
        let id = match group.outcomes.receives() {
            receives if receives >= MOST_ASKED => Err(RecvError::QueueFull { receives }),
            _ => group.mailbox.recv_until(from, tag, max_bytes, deadline),
        };
        let id = id.map_err(CommunicatorError::Receives)?;
        group.outcomes.await_receive(id);
        group.outcomes.collect(&mut group.mailbox);
        Ok(id)
    }

    /// How a send has ended; `None` if it has not.
    pub fn take_sent(&mut self, id: SendId) -> Option<SendOutcome> {
        self.group.as_mut()?.outcomes.take_sent(id)
    }

    /// How a receive has ended; `None` if it has not.
    pub fn take_received(&mut self, id: RecvId) -> Option<RecvOutcome> {
        self.group.as_mut()?.outcomes.take_received(id)
    }

    /// Whether all of a message has been handed to the network at least once; also if it has ended.
    pub fn has_gone(&self, id: SendId) -> bool {
        self.group.as_ref().is_none_or(|group| group.mailbox.has_gone(id))
    }

    /// The outcome of a send will not be taken; the message goes on, whatever its deadline was.
    pub fn ignore_sent(&mut self, id: SendId) {
        if let Some(group) = &mut self.group {
            group.mailbox.lift_deadline(id);
            group.outcomes.ignore_send(id);
        }
    }

    /// Why nothing can be exchanged with a rank any more.
    pub fn absence(&self, rank: u16) -> CommunicatorError {
        let Some(group) = &self.group else { return CommunicatorError::NotJoined };
        group.check_presence(rank).err().unwrap_or_else(|| CommunicatorError::Gone(group.named(rank)))
    }

    /// Withdraws a message; it has no outcome then. False if it has ended already.
    pub fn cancel_send(&mut self, id: SendId) -> bool {
        self.group.as_mut().is_some_and(|group| group.cancel_send(id))
    }

    /// Takes back a receive for which no message has come yet; it has no outcome then. False if a message has begun to arrive or
    /// the receive has ended: its outcome comes.
    pub fn cancel_recv(&mut self, id: RecvId) -> bool {
        self.group.as_mut().is_some_and(|group| group.cancel_recv(id))
    }
}

impl Group {
    fn cancel_send(&mut self, id: SendId) -> bool {
        let cancelled = self.mailbox.cancel_send(id);
        if cancelled {
            self.outcomes.forget_send(id);
        }
        cancelled
    }

    fn cancel_recv(&mut self, id: RecvId) -> bool {
        let cancelled = self.mailbox.cancel_recv(id);
        if cancelled {
            self.outcomes.forget_receive(id);
        }
        cancelled
    }

    /// Sends a part of a collective, whose outcome nobody waits for; false if there is no room. To a rank that is not there any more
    /// nothing is sent: that shows elsewhere.
    pub(in crate::communicator) fn send_internal(&mut self, to: u16, tag: u32, bytes: Arc<[u8]>) -> bool {
        match self.mailbox.send(to, tag, bytes) {
            Ok(id) => {
                self.outcomes.await_send(id);
                self.outcomes.ignore_send(id);
                self.outcomes.collect(&mut self.mailbox);
                true
            }
            Err(SendError::QueueFull { .. }) => false,
            Err(SendError::PeerGone { .. } | SendError::NoSuchRank { .. }) => true,
        }
    }

    /// Receives a part of a collective; `None` if there is no room.
    pub(in crate::communicator) fn receive_internal(&mut self, from: u16, tag: u32, max_bytes: usize) -> Option<RecvId> {
        let id = self.mailbox.recv(from, tag, max_bytes).ok()?;
        self.outcomes.await_receive(id);
        self.outcomes.collect(&mut self.mailbox);
        Some(id)
    }

    /// A receive of a collective that has ended: nobody wants its outcome.
    pub(in crate::communicator) fn drop_receive(&mut self, id: RecvId) {
        if !self.cancel_recv(id) {
            self.outcomes.ignore_receive(id);
        }
    }
}

fn check_tag(tag: u32) -> Result<(), CommunicatorError> {
    if tag < FIRST_RESERVED_TAG { Ok(()) } else { Err(CommunicatorError::Tag { tag }) }
}
