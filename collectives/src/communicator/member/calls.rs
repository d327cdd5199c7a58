//! What all collectives have in common: they are numbered, compared, and end together or not at all.

use super::{Membership, StreamName, Way};
use crate::communicator::collective::Progress;
use crate::communicator::error::{CommunicatorError, Named};
use crate::communicator::failure::{Failure, What};
use crate::communicator::signature::{Operation, Signature};
use crate::membership::presence::Standing;
use ethbcast_transport::Instant;

impl Membership {
    /// Begins a collective.
    ///
    /// # Errors
    /// If there is no such root, another collective is in progress, or this one cannot be done.
    pub(in crate::communicator) fn begin(
        &mut self,
        now: Instant,
        operation: Operation,
        root: u16,
        bytes: usize,
    ) -> Result<Signature, CommunicatorError> {
        self.check_rank(root)?;
        if let Some(signature) = self.agreement.current() {
            return Err(CommunicatorError::Busy { signature });
        }
        let (signature, mismatch) = self.agreement.begin(operation, root, bytes as u64);
        if let Some(mismatch) = mismatch {
            self.fail(now, mismatch);
        }
        // Of what failed before nothing is begun: nobody waits for it.
        match self.obstacle(now, signature) {
            Some(failure) => Err(self.end_badly(failure)),
            None => Ok(signature),
        }
    }

    /// Why a collective cannot be done.
    fn obstacle(&mut self, now: Instant, signature: Signature) -> Option<Failure> {
        if let Some(rank) = self.presence.who_left_before(signature.number) {
            self.fail(now, Failure { from: signature.number, what: What::Left { rank } });
        }
        self.agreement.failure_of(signature.number)
    }

    fn end_badly(&mut self, failure: Failure) -> CommunicatorError {
        self.agreement.end();
        self.error(failure)
    }

    /// What a step of a collective comes to: a collective that can end does so, whatever else has happened.
    ///
    /// # Errors
    /// If it cannot be done.
    pub(in crate::communicator) fn conclude(
        &mut self,
        now: Instant,
        signature: Signature,
        step: Result<Progress, Failure>,
    ) -> Result<Progress, CommunicatorError> {
        match step {
            Ok(Progress::Done) => {
                self.agreement.end();
                return Ok(Progress::Done);
            }
            Ok(Progress::Waiting) => {}
            Err(failure) => self.fail(now, failure),
        }
        match self.obstacle(now, signature) {
            Some(failure) => Err(self.end_badly(failure)),
            None => Ok(Progress::Waiting),
        }
    }

    /// The caller's time is up: this and all later collectives have failed, on all ranks.
    pub(in crate::communicator) fn abandon(&mut self, now: Instant, signature: Signature) -> CommunicatorError {
        let missing = self.agreement.missing(signature.number);
        let missing_ranks: Vec<Named> = missing.into_iter().map(|rank| self.named(rank)).collect();
        self.fail(now, Failure { from: signature.number, what: What::Abandoned { rank: self.rank(), signature } });
        self.agreement.end();
        CommunicatorError::TimedOut { signature, missing_ranks }
    }

    /// Why nothing more comes from a rank for collective `number`, if that is so.
    pub(in crate::communicator) fn absence(&self, rank: u16, number: u64) -> Option<Failure> {
        let what = match self.presence.standing(rank) {
            Standing::Left { .. } => What::Left { rank },
            Standing::Gone => What::Gone { rank },
            Standing::Here | Standing::Leaving { .. } => return None,
        };
        Some(Failure { from: number, what })
    }

    /// Why nothing more comes of a message that `origin` broadcasts: it is not there any more, and nobody who hands on or repairs is.
    pub(in crate::communicator) fn dried_up(&self, origin: u16, number: u64) -> Option<Failure> {
        let failure = self.absence(origin, number)?;
        let sources = [Way::Cast, Way::Chain].map(|way| self.streams.source(StreamName { origin, way }));
        let flows = sources.into_iter().flatten().any(|rank| self.absence(rank, number).is_none());
        (!flows).then_some(failure)
    }

    /// What has come from `rank` does not tell which call it has made in place of the one in progress; its signs of life do. `None` until
    /// one comes.
    pub(in crate::communicator) fn misfit(&self, rank: u16, expected: Signature) -> Option<Failure> {
        let told = self.agreement.has_called(rank, expected.number);
        told.then_some(Failure { from: expected.number, what: What::Garbled { rank } })
    }

    /// The signature at the head of a message from `rank` is not that of the collective in progress.
    pub(in crate::communicator) fn odd(&self, rank: u16, found: Option<Signature>, expected: Signature) -> Failure {
        match found {
            // Another number: that one is wrong which this rank remembers otherwise; else it does not belong here at all.
            Some(found) if found.number == expected.number => Failure::mismatch((rank, found), (self.rank(), expected)),
            Some(found) => self.agreement.compare(rank, found).unwrap_or(Failure { from: 0, what: What::Garbled { rank } }),
            None => Failure { from: 0, what: What::Garbled { rank } },
        }
    }
}
