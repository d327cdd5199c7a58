//! The collectives as blocking calls.

use super::{Communicator, Error};
use crate::communicator::collective::{Call, CallWork};
use crate::communicator::{
    Allgather, Barrier, Broadcast, CallProgress, CommunicatorError, Gather, Member, Patience, Scatter,
};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::ops::ControlFlow;

impl Communicator {
    /// Copies the bytes of `root`'s `buffer` into every rank's. It returns at the root when all
    /// bytes have been handed over for sending, elsewhere when they have arrived.
    ///
    /// # Errors
    /// If ranks disagree about the call, one is gone, or the time is up; see [`Error`].
    pub fn broadcast(&self, root: u16, buffer: &mut [u8]) -> Result<(), Error> {
        let length = buffer.len();
        self.collective(
            |member, now| Broadcast::begin(member, now, Rank(root), length),
            |broadcast, member, now| broadcast.advance(member, now, buffer),
        )
    }

    /// Waits until every rank has called it.
    ///
    /// # Errors
    /// As [`broadcast`](Communicator::broadcast).
    pub fn barrier(&self) -> Result<(), Error> {
        self.collective(Barrier::begin, |barrier, member, now| barrier.advance(member, now))
    }

    /// Copies block *r* of the root's `blocks` into rank *r*'s `own`. All blocks have the length of
    /// `own`; `blocks` matters at the root only, where it has the length of all blocks together.
    ///
    /// # Errors
    /// As [`broadcast`](Communicator::broadcast).
    pub fn scatter(&self, root: u16, blocks: &[u8], own: &mut [u8]) -> Result<(), Error> {
        let length = own.len();
        self.collective(
            |member, now| Scatter::begin(member, now, Rank(root), blocks.len(), length),
            |scatter, member, now| scatter.advance(member, now, blocks, own),
        )
    }

    /// Copies every rank's `own` block into the root's `blocks`, in rank order. `blocks` matters at
    /// the root only.
    ///
    /// # Errors
    /// As [`broadcast`](Communicator::broadcast).
    pub fn gather(&self, root: u16, own: &[u8], blocks: &mut [u8]) -> Result<(), Error> {
        let length = blocks.len();
        self.collective(
            |member, now| Gather::begin(member, now, Rank(root), length, own.len()),
            |gather, member, now| gather.advance(member, now, own, blocks),
        )
    }

    /// Copies every rank's `own` block into everybody's `blocks`, in rank order.
    ///
    /// # Errors
    /// As [`broadcast`](Communicator::broadcast).
    pub fn allgather(&self, own: &[u8], blocks: &mut [u8]) -> Result<(), Error> {
        let length = blocks.len();
        self.collective(
            |member, now| Allgather::begin(member, now, length, own.len()),
            |allgather, member, now| allgather.advance(member, now, own, blocks),
        )
    }

    fn collective<W: CallWork>(
        &self,
        begin: impl FnOnce(&mut Member, Instant) -> Result<Call<W>, CommunicatorError>,
        mut advance: impl FnMut(&mut Call<W>, &mut Member, Instant) -> Result<CallProgress, CommunicatorError>,
    ) -> Result<(), Error> {
        let shared = self.shared()?;
        let _turn = self.collective_turn()?;
        let (mut begin, mut call, mut patience) = (Some(begin), None, None);
        let mut turn = |member: &mut Member, now: Instant| {
            let patience = patience.get_or_insert_with(|| Patience::new(member, now, self.call_within));
            // The call begins in the turn that first advances it: nothing is sent in between.
            let begun = begin.take().map_or(Ok(()), |begin| begin(member, now).map(|begun| call = Some(begun)));
            match begun.and_then(|()| advance(call.as_mut().expect("it has begun"), member, now)) {
                Ok(CallProgress::Waiting) if !patience.is_over(member, now) => ControlFlow::Continue(patience.due()),
                Ok(CallProgress::Waiting) => {
                    ControlFlow::Break(Err(call.take().expect("it waits").abandon(member, now)))
                }
                Ok(CallProgress::Done) => ControlFlow::Break(Ok(())),
                Err(error) => ControlFlow::Break(Err(error)),
            }
        };
        let mut due = shared.now() + self.call_within / 16;
        loop {
            // A wait ends when progress is due to be checked or the caller's other work is due.
            let until = self.meanwhile.as_ref().map_or(due, |other| due.min(shared.now() + other.every()));
            let ended = shared.wait(Some(until), |member, now| match turn(member, now) {
                ControlFlow::Continue(at) => {
                    due = at;
                    ControlFlow::Continue(())
                }
                ControlFlow::Break(outcome) => ControlFlow::Break(outcome),
            })?;
            if let Some(outcome) = ended {
                return Ok(outcome?);
            }
            if self.meanwhile.as_ref().is_some_and(|other| other.work().is_break()) {
                shared.with(|member, now| call.take().map(|call| call.abandon(member, now)))?;
                return Err(Error::Interrupted);
            }
        }
    }
}
