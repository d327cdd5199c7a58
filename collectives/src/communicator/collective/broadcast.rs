//! Broadcast: one rank's bytes to all, by cast, or down a chain where that is known to be faster.

use super::Progress;
use super::transfer::{Reading, Writing};
use crate::communicator::error::CommunicatorError;
use crate::communicator::member::Member;
use crate::communicator::signature::{Operation, Signature};
use ethbcast_transport::Instant;

/// A broadcast in progress.
#[derive(Debug)]
pub struct Broadcast {
    signature: Signature,
    part: Part,
    done: bool,
}

#[derive(Debug)]
enum Part {
    Root(Writing),
    Other(Reading),
}

impl Broadcast {
    /// Begins to broadcast `bytes` bytes from `root`.
    ///
    /// # Errors
    /// If there is no such root, another collective is in progress on this rank, or the ranks cannot go on together.
    pub fn begin(member: &mut Member, now: Instant, root: u16, bytes: usize) -> Result<Broadcast, CommunicatorError> {
        let signature = member.group()?.begin(now, Operation::Broadcast, root, bytes)?;
        let is_root = member.rank() == Some(root);
        let part = if is_root { Part::Root(Writing::new(member.way_for(bytes))) } else { Part::Other(Reading::new(root)) };
        Ok(Broadcast { signature, part, done: false })
    }

    /// Moves on: from `buffer` at the root, which is done when everything is handed over; into it elsewhere.
    ///
    /// # Errors
    /// If the ranks cannot go on together.
    ///
    /// # Panics
    /// If the buffer has another length than was said.
    pub fn advance(&mut self, member: &mut Member, now: Instant, buffer: &mut [u8]) -> Result<Progress, CommunicatorError> {
        assert_eq!(buffer.len() as u64, self.signature.bytes, "the buffer has another length than was said");
        if self.done {
            return Ok(Progress::Done);
        }
        let (group, signature) = (member.group()?, self.signature);
        let step = match &mut self.part {
            // There is nobody to send to.
            Part::Root(_) if group.size() == 1 => Ok(true),
            Part::Root(writing) => Ok(writing.advance(group, now, signature, buffer)),
            Part::Other(reading) => reading.advance(group, now, signature, buffer),
        };
        let progress = group.conclude(now, signature, step.map(Progress::from))?;
        self.done = progress == Progress::Done;
        Ok(progress)
    }

    /// Gives up: this and all later collectives fail on all ranks. Returns the error to report.
    pub fn abandon(self, member: &mut Member, now: Instant) -> CommunicatorError {
        member.group().map_or_else(|error| error, |group| group.abandon(now, self.signature))
    }
}
