//! Parts shared by all collectives: a signature, an outcome that is identical on all ranks, and
//! protection against ending twice.

use crate::communicator::error::CommunicatorError;
use crate::communicator::failure::Failure;
use crate::communicator::member::{Group, Member};
use crate::communicator::signature::Signature;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::fmt::Debug;

/// Progress of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a collective that waits has to be advanced again"]
pub enum CallProgress {
    /// This rank has what it needs and has given what the others need.
    Done,
    /// The rank waits for frames or for room.
    Waiting,
}

/// One rank's work in a collective.
pub trait CallWork: Debug {
    /// The caller's slices, identical at every step.
    type Slices<'a>;

    /// Goes on as far as frames and room allow; returns true once this rank's work is done.
    fn step(
        &mut self,
        group: &mut Group,
        now: Instant,
        call: Signature,
        slices: Self::Slices<'_>,
    ) -> Result<bool, Failure>;

    /// Returns the rank that this one waits for, if known.
    fn waits_for(&self, group: &mut Group) -> Option<Rank>;

    /// Stops waiting: the collective ends without being done.
    fn give_up(&mut self, _group: &mut Group) {}
}

/// A collective in progress on this rank; [`Broadcast`](super::Broadcast) and the others are such calls.
#[derive(Clone, Debug)]
#[must_use = "a collective that is begun has to be advanced to its end or abandoned"]
pub struct Call<W> {
    signature: Signature,
    work: W,
    done: bool,
}

impl<W> Call<W> {
    pub(super) fn new(signature: Signature, work: W) -> Call<W> {
        Call { signature, work, done: false }
    }

    /// Returns the call's identity.
    pub fn signature(&self) -> Signature {
        self.signature
    }
}

impl<W: CallWork> Call<W> {
    pub(super) fn step(
        &mut self,
        member: &mut Member,
        now: Instant,
        slices: W::Slices<'_>,
    ) -> Result<CallProgress, CommunicatorError> {
        if self.done {
            return Ok(CallProgress::Done);
        }
        let group = member.group()?;
        let step = self.work.step(group, now, self.signature, slices);
        let end = group.calls().conclude(now, self.signature, step);
        self.done = end == Ok(true);
        if end == Ok(false) && group.calls().is_wait_due(now) {
            let waits_for = self.work.waits_for(group);
            group.calls().set_waits_for(now, waits_for);
        }
        if end.is_err() {
            self.work.give_up(group);
        }
        end.map(|done| if done { CallProgress::Done } else { CallProgress::Waiting })
    }

    pub(super) fn check_length(&self, slice: &[u8]) {
        assert_eq!(slice.len() as u64, self.signature.bytes, "the slice has another length than was said");
    }

    /// Gives up: this and all later collectives fail on all ranks. Returns the error to report.
    pub fn abandon(mut self, member: &mut Member, now: Instant) -> CommunicatorError {
        match member.group() {
            Ok(group) => {
                self.work.give_up(group);
                group.calls().abandon(now, self.signature)
            }
            Err(error) => error,
        }
    }
}
