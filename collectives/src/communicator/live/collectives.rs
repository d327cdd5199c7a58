//! The collectives, one blocking call each.

use super::{Communicator, Error};
use crate::communicator::{Allgather, Barrier, Broadcast, CommunicatorError, Gather, Member, Progress, Scatter};
use ethbcast_transport::Instant;
use std::ops::ControlFlow;

impl Communicator {
    /// Puts the bytes that `root` has in its `buffer` into everybody's. At the root it returns when all of them have been handed over
    /// to be sent, elsewhere when they are here.
    ///
    /// # Errors
    /// If ranks disagree about the call, one is gone, or the time is up; see [`Error`].
    pub fn broadcast(&self, root: u16, buffer: &mut [u8]) -> Result<(), Error> {
        let length = buffer.len();
        self.collective(
            |member, now| Broadcast::begin(member, now, root, length),
            |broadcast: &mut Broadcast, member, now| broadcast.advance(member, now, buffer),
            Broadcast::abandon,
        )
    }

    /// Waits until every rank has called it.
    ///
    /// # Errors
    /// As [`broadcast`](Communicator::broadcast).
    pub fn barrier(&self) -> Result<(), Error> {
        self.collective(Barrier::begin, |barrier, member, now| barrier.advance(member, now), Barrier::abandon)
    }

    /// Puts block *r* of `blocks`, as `root` has them, into rank *r*'s `own`. All blocks have the length of `own`; `blocks` matters at the
    /// root only, where it is as long as all of them.
    ///
    /// # Errors
    /// As [`broadcast`](Communicator::broadcast).
    pub fn scatter(&self, root: u16, blocks: &[u8], own: &mut [u8]) -> Result<(), Error> {
        let length = own.len();
        self.collective(
            |member, now| Scatter::begin(member, now, root, blocks.len(), length),
            |scatter, member, now| scatter.advance(member, now, blocks, own),
            Scatter::abandon,
        )
    }

    /// Puts every rank's `own` block into the root's `blocks`, in the order of ranks. `blocks` matters at the root only.
    ///
    /// # Errors
    /// As [`broadcast`](Communicator::broadcast).
    pub fn gather(&self, root: u16, own: &[u8], blocks: &mut [u8]) -> Result<(), Error> {
        let length = blocks.len();
        self.collective(
            |member, now| Gather::begin(member, now, root, length, own.len()),
            |gather, member, now| gather.advance(member, now, own, blocks),
            Gather::abandon,
        )
    }

    /// Puts every rank's `own` block into everybody's `blocks`, in the order of ranks.
    ///
    /// # Errors
    /// As [`broadcast`](Communicator::broadcast).
    pub fn allgather(&self, own: &[u8], blocks: &mut [u8]) -> Result<(), Error> {
        let length = blocks.len();
        self.collective(
            |member, now| Allgather::begin(member, now, length, own.len()),
            |allgather, member, now| allgather.advance(member, now, own, blocks),
            Allgather::abandon,
        )
    }

    /// Runs one collective to its end, or to the deadline.
    fn collective<C>(
        &self,
        begin: impl FnOnce(&mut Member, Instant) -> Result<C, CommunicatorError>,
        mut advance: impl FnMut(&mut C, &mut Member, Instant) -> Result<Progress, CommunicatorError>,
        abandon: impl FnOnce(C, &mut Member, Instant) -> CommunicatorError,
    ) -> Result<(), Error> {
        let shared = &self.shared;
        let deadline = shared.now() + self.call_within;
        let Some(_turn) = self.collective.try_lock_for(self.call_within) else {
            return Err(Error::TimedOut { what: "a collective behind those of other threads".into(), within: self.call_within });
        };
        let (mut begin, mut running) = (Some(begin), None);
        let ended = shared.wait(Some(deadline), |member, now| {
            if let Some(begin) = begin.take() {
                match begin(member, now) {
                    Ok(collective) => running = Some(collective),
                    Err(error) => return ControlFlow::Break(Err(error)),
                }
            }
            let collective = running.as_mut().expect("it has begun");
            match advance(collective, member, now) {
                Ok(Progress::Waiting) => ControlFlow::Continue(()),
                Ok(Progress::Done) => ControlFlow::Break(Ok(())),
                Err(error) => ControlFlow::Break(Err(error)),
            }
        })?;
        match (ended, running) {
            (Some(outcome), _) => Ok(outcome?),
            (None, Some(collective)) => Err(shared.with(|member, now| abandon(collective, member, now))?.into()),
            (None, None) => unreachable!("a wait calls its turn at least once"),
        }
    }
}
