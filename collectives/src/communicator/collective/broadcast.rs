//! Broadcast: one rank's bytes to all, by the route predicted to be fastest or the one configured.

use super::shares::{Incoming, Outgoing};
use super::{Call, CallProgress, CallWork};
use crate::communicator::error::CommunicatorError;
use crate::communicator::failure::Failure;
use crate::communicator::member::{Group, Member, StreamName};
use crate::communicator::signature::{Operation, Signature};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;

/// A broadcast in progress.
pub type Broadcast = Call<BroadcastRole>;

/// One rank's part in a broadcast.
#[derive(Clone, Debug)]
pub enum BroadcastRole {
    /// The rank that has the bytes.
    Root(Outgoing),
    /// A rank that receives them.
    Other(Incoming),
}

impl Broadcast {
    /// Begins to broadcast `bytes` bytes from `root`.
    ///
    /// # Errors
    /// If there is no such root, another collective is in progress on this rank, or the ranks
    /// cannot go on together.
    pub fn begin(member: &mut Member, now: Instant, root: Rank, bytes: usize) -> Result<Broadcast, CommunicatorError> {
        let signature = member.group()?.calls().begin(now, Operation::Broadcast, root, bytes)?;
        let group = member.group()?;
        let (decision, size) = (group.streams().plans().decide(root, bytes), group.size());
        let name = StreamName::new(root, decision.way);
        let part = if group.rank() == root {
            BroadcastRole::Root(Outgoing::new(name, bytes, size, decision.frame_bytes))
        } else {
            BroadcastRole::Other(Incoming::new(name, size))
        };
        Ok(Call::new(signature, part))
    }

    /// Advances the call: from `buffer` at the root, which is done when everything is handed over;
    /// into `buffer` elsewhere.
    ///
    /// # Errors
    /// If the ranks cannot go on together.
    ///
    /// # Panics
    /// If the buffer's length differs from that given to `begin`.
    pub fn advance(
        &mut self,
        member: &mut Member,
        now: Instant,
        buffer: &mut [u8],
    ) -> Result<CallProgress, CommunicatorError> {
        self.check_length(buffer);
        self.step(member, now, buffer)
    }
}

impl CallWork for BroadcastRole {
    type Slices<'a> = &'a mut [u8];

    fn step(&mut self, group: &mut Group, now: Instant, call: Signature, buffer: &mut [u8]) -> Result<bool, Failure> {
        match self {
            // A group of one has no receivers.
            BroadcastRole::Root(_) if group.size() == 1 => Ok(true),
            BroadcastRole::Root(outgoing) => Ok(outgoing.advance(group, now, call, buffer)),
            BroadcastRole::Other(incoming) => incoming.advance(group, now, call, buffer),
        }
    }

    fn waits_for(&self, group: &mut Group) -> Option<Rank> {
        match self {
            BroadcastRole::Root(outgoing) => outgoing.waits_for(group),
            BroadcastRole::Other(incoming) => incoming.waits_for(group),
        }
    }
}
