//! Collectives as in MPI: broadcast, barrier, scatter, gather, allgather, reduce, allreduce.
//!
//! Each is a value: `begin` starts it, `advance` moves it on after each round of the driver until
//! it is [`Done`](CallProgress::Done), `abandon` gives it up. There is no thread, and bytes are
//! copied only between the caller's slice and a feed or message. The caller's slices are given to
//! each `advance` and must stay the same.

mod barrier;
mod blocks;
mod broadcast;
mod mail;
mod reduce;
mod transfer;

pub use barrier::Barrier;
pub use blocks::{Allgather, Gather, Scatter};
pub use broadcast::Broadcast;
pub use reduce::{Allreduce, Combine, Reduce};

use crate::communicator::error::{CommunicatorError, Failure};
use crate::communicator::member::{Group, Member};
use crate::communicator::signature::Signature;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::fmt::Debug;
use std::time::Duration;

/// Progress of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a collective that waits has to be advanced again"]
pub enum CallProgress {
    /// The rank has everything that it needs and has sent everything that the others need.
    Done,
    /// The rank waits for frames or for room.
    Waiting,
}

pub trait CallWork: Debug {
    /// The caller's slices, identical at every step.
    type Slices<'a>;

    /// Continues as far as frames and room allow; returns true once this rank's work is done.
    fn step(
        &mut self,
        group: &mut Group,
        now: Instant,
        call: Signature,
        slices: Self::Slices<'_>,
    ) -> Result<bool, Failure>;

    fn waits_for(&self, group: &mut Group) -> Option<Rank>;

    fn give_up(&mut self, _group: &mut Group) {}
}

/// A collective in progress on this rank; [`Broadcast`](super::Broadcast) and the others are such
/// calls.
#[derive(Clone, Debug)]
#[must_use = "a collective that is begun has to be advanced to its end or abandoned"]
pub struct Call<W> {
    signature: Signature,
    work: W,
    done: bool,
}

impl<W> Call<W> {
    pub(super) fn new(signature: Signature, work: W) -> Call<W> {
        Call {
            signature,
            work,
            done: false,
        }
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
        end.map(|done| {
            if done {
                CallProgress::Done
            } else {
                CallProgress::Waiting
            }
        })
    }

    pub(super) fn check_length(&self, slice: &[u8]) {
        assert_eq!(
            slice.len() as u64,
            self.signature.bytes,
            "the slice's length differs from the one given at the start"
        );
    }

    /// Abandons the call: this and all later collectives fail on all ranks. Returns the error to
    /// report.
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

/// The shrinking of a group to the surviving ranks, after others died or left (ULFM's
/// `MPIX_Comm_shrink`). All survivors begin it and advance it to its end. They have new ranks then,
/// in the old order, and collectives count from 0; messages in flight, and outcomes that were not
/// taken, are dropped. A rank that dies meanwhile is left out, or found to be gone later.
#[derive(Clone, Debug)]
#[must_use = "a shrinking that is begun has to be advanced to its end or abandoned"]
pub struct Shrink {
    session: u32,
}

impl Shrink {
    /// Begins to agree with the other ranks on the survivors.
    ///
    /// # Errors
    /// If the group is not complete, a collective is in progress, or this rank has left.
    pub fn begin(member: &mut Member, now: Instant) -> Result<Shrink, CommunicatorError> {
        Ok(Shrink {
            session: member.group()?.begin_shrink(now)?,
        })
    }

    /// Continues as far as frames allow.
    ///
    /// # Errors
    /// If the others consider this rank lost, or it receives from none of them.
    pub fn advance(
        &mut self,
        member: &mut Member,
        now: Instant,
    ) -> Result<CallProgress, CommunicatorError> {
        member.shrink_on(now);
        if member.session() != Some(self.session) {
            return Ok(CallProgress::Done);
        }
        member
            .group()?
            .take_shrink_error()
            .map_or(Ok(CallProgress::Waiting), Err)
    }

    /// Abandons the shrinking; the group is as it was before. Returns the error to report.
    pub fn abandon(self, member: &mut Member) -> CommunicatorError {
        match member.group() {
            Ok(group) => group.give_up_shrink(),
            Err(error) => error,
        }
    }
}

/// Checks per allowed time. A stall is noticed at most one sixteenth late.
const CHECKS: u32 = 16;
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time that a call may take without progress, here or at another rank as far as known. The
/// caller's driver [checks](Patience::is_over) when it is [due](Patience::due), and abandons the
/// call when it is over.
#[derive(Clone, Debug)]
pub struct Patience {
    within: Duration,
    progress: u64,
    moved_at: Instant,
    due: Instant,
}

impl Patience {
    /// Creates a limit: no progress for longer than `within`, counted from `now`.
    pub fn new(member: &Member, now: Instant, within: Duration) -> Patience {
        let due = now + MAX_CHECK_INTERVAL.min(within / CHECKS);
        Patience {
            within,
            progress: member.progress(),
            moved_at: now,
            due,
        }
    }

    /// Returns the time of the next check.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Whether the call has made no progress for too long.
    pub fn is_over(&mut self, member: &Member, now: Instant) -> bool {
        if now < self.due {
            return false;
        }
        let progress = member.progress();
        if progress != self.progress {
            (self.progress, self.moved_at) = (progress, now);
        }
        let end = self.moved_at + self.within;
        self.due = end.min(now + MAX_CHECK_INTERVAL.min(self.within / CHECKS));
        end <= now
    }
}
