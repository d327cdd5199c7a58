//! Failures of a group's collectives: found by one rank, announced to all.

use super::error::{CommunicatorError, Culprit, Named};
use super::roster::Roster;
use super::signature::Signature;
use crate::membership::codec::{BodyReader, BodyWriter};
use ethbcast_transport::wire::Rank;

/// Failure: a cause, and the first collective that it prevents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Collectives with lower numbers may still succeed.
    pub from: u64,
    pub cause: Cause,
}

/// Cause of a failure; see the variants of [`CommunicatorError`] with these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Mismatch { one: (Rank, Signature), other: (Rank, Signature) },
    Gone { rank: Rank },
    Left { rank: Rank },
    Abandoned { rank: Rank, signature: Signature, blame: Option<Blame> },
    Garbled { rank: Rank },
    Cut { one: Rank, other: Rank },
    Deaf { rank: Rank },
}

/// Cause named by a rank that gives a collective up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    NotEntered { rank: Rank },
    TakesNothing { rank: Rank, from: Rank },
    Between { one: Rank, other: Rank },
}

impl Blame {
    fn to_wire(self) -> (u8, Rank, Rank) {
        match self {
            Blame::NotEntered { rank } => (1, rank, Rank(0)),
            Blame::TakesNothing { rank, from } => (2, rank, from),
            Blame::Between { one, other } => (3, one, other),
        }
    }

    fn from_wire(code: u8, one: Rank, other: Rank) -> Option<Option<Blame>> {
        Some(match code {
            0 => None,
            1 => Some(Blame::NotEntered { rank: one }),
            2 => Some(Blame::TakesNothing { rank: one, from: other }),
            3 => Some(Blame::Between { one, other }),
            _ => return None,
        })
    }

    pub(super) fn named(self, named: impl Fn(Rank) -> Named) -> Culprit {
        match self {
            Blame::NotEntered { rank } => Culprit::NotEntered(named(rank)),
            Blame::TakesNothing { rank, from } => Culprit::TakesNothing(named(rank), named(from)),
            Blame::Between { one, other } => Culprit::Between(named(one), named(other)),
        }
    }
}

impl Failure {
    pub(super) fn mismatch(one: (Rank, Signature), other: (Rank, Signature)) -> Failure {
        Failure { from: one.1.number.min(other.1.number), cause: Cause::Mismatch { one, other } }
    }

    /// Writes the failure's code, the blame's code, the ranks, the first number and the signatures;
    /// zeros stand for absent values.
    pub(super) fn write(failure: Option<Failure>, out: &mut BodyWriter) {
        let none = (0, Rank(0), Rank(0));
        let (mut blame, mut signatures) = (none, [None, None]);
        let (code, rank, other) = match failure.map(|failure| failure.cause) {
            None => none,
            Some(Cause::Mismatch { one, other }) => {
                signatures = [Some(one.1), Some(other.1)];
                (1, one.0, other.0)
            }
            Some(Cause::Gone { rank }) => (2, rank, Rank(0)),
            Some(Cause::Left { rank }) => (3, rank, Rank(0)),
            Some(Cause::Abandoned { rank, signature, blame: culprit }) => {
                (signatures[0], blame) = (Some(signature), culprit.map_or(none, Blame::to_wire));
                (4, rank, blame.1)
            }
            Some(Cause::Garbled { rank }) => (5, rank, Rank(0)),
            Some(Cause::Cut { one, other }) => (6, one, other),
            Some(Cause::Deaf { rank }) => (7, rank, Rank(0)),
        };
        out.u8(code).u8(blame.0).u16(rank.0).u16(other.0).u16(blame.2.0);
        out.u64(failure.map_or(0, |failure| failure.from));
        signatures.into_iter().for_each(|signature| Signature::write_or_zeros(signature, out));
    }

    pub(super) fn read(from: &mut BodyReader<'_>, size: u16) -> Option<Option<Failure>> {
        let (code, blame) = (from.u8()?, from.u8()?);
        let (rank, other, third) = (Rank(from.u16()?), Rank(from.u16()?), Rank(from.u16()?));
        let (first, one) = (from.u64()?, from.bytes(Signature::BYTES)?);
        let signatures = [one, from.bytes(Signature::BYTES)?];
        let signature = |at: usize| Signature::split(signatures[at]).map(|(signature, _)| signature);
        let cause = match code {
            0 => return Some(None),
            1 => Cause::Mismatch { one: (rank, signature(0)?), other: (other, signature(1)?) },
            2 => Cause::Gone { rank },
            3 => Cause::Left { rank },
            4 => {
                let blame = Blame::from_wire(blame, other, third)?;
                Cause::Abandoned { rank, signature: signature(0)?, blame }
            }
            5 => Cause::Garbled { rank },
            6 => Cause::Cut { one: rank, other },
            7 => Cause::Deaf { rank },
            _ => return None,
        };
        (rank.max(other).max(third).0 < size).then_some(Some(Failure { from: first, cause }))
    }

    pub(super) fn error(&self, own: Rank, roster: &Roster) -> CommunicatorError {
        let named = |rank: Rank| Named { rank, host: roster.host(rank).to_owned() };
        match self.cause {
            Cause::Mismatch { one, other } => {
                CommunicatorError::Mismatch { one: named(one.0), other: named(other.0), signatures: (one.1, other.1) }
            }
            Cause::Gone { rank } if rank == own => CommunicatorError::Outlawed,
            Cause::Gone { rank } => CommunicatorError::Gone(named(rank)),
            Cause::Left { rank } => CommunicatorError::Left(named(rank)),
            Cause::Abandoned { rank, signature, blame } => {
                let culprit = blame.map(|blame| Box::new(blame.named(named)));
                CommunicatorError::Abandoned { rank: named(rank), signature, culprit }
            }
            Cause::Garbled { rank } => CommunicatorError::Garbled(named(rank)),
            Cause::Cut { one, other } => CommunicatorError::Cut(named(one), named(other)),
            Cause::Deaf { rank } => CommunicatorError::Deaf(named(rank)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communicator::signature::Operation;

    fn signature(number: u64) -> Signature {
        Signature { number, operation: Operation::Gather, root: Rank(3), bytes: 9 }
    }

    #[test]
    fn every_failure_is_read_as_it_was_written_and_ranks_that_do_not_exist_are_refused() {
        let between = Blame::Between { one: Rank(2), other: Rank(3) };
        let causes = [
            Cause::Mismatch { one: (Rank(3), signature(7)), other: (Rank(1), signature(8)) },
            Cause::Gone { rank: Rank(3) },
            Cause::Left { rank: Rank(3) },
            Cause::Abandoned { rank: Rank(3), signature: signature(1), blame: None },
            Cause::Abandoned { rank: Rank(1), signature: signature(1), blame: Some(between) },
            Cause::Abandoned {
                rank: Rank(0),
                signature: signature(1),
                blame: Some(Blame::NotEntered { rank: Rank(3) }),
            },
            Cause::Garbled { rank: Rank(3) },
            Cause::Cut { one: Rank(1), other: Rank(3) },
            Cause::Deaf { rank: Rank(3) },
        ];
        let write = |failure| {
            let mut out = BodyWriter::default();
            Failure::write(failure, &mut out);
            out.into_bytes()
        };
        let read = |wire: &[u8], size| Failure::read(&mut BodyReader::new(wire), size);
        for failure in causes.map(|cause| Failure { from: 7, cause }) {
            let wire = write(Some(failure));
            assert_eq!(wire.len(), 16 + 2 * Signature::BYTES);
            assert_eq!(read(&wire, 4), Some(Some(failure)));
            assert_eq!(read(&wire, 3), None, "there is no rank 3");
        }
        assert_eq!(read(&write(None), 4), Some(None));
    }
}
