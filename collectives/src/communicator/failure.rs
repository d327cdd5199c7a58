//! Why a group's collectives cannot go on: found by one rank, told to all.

use super::error::{CommunicatorError, Named};
use super::roster::Roster;
use super::signature::Signature;
use crate::membership::codec::{BodyReader, BodyWriter};
use ethbcast_transport::wire::Rank;

/// A reason, and the first collective it stands in the way of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Collectives with lower numbers may still succeed.
    pub from: u64,
    pub cause: Cause,
}

/// See the variants of [`CommunicatorError`] with the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Mismatch { one: (Rank, Signature), other: (Rank, Signature) },
    Gone { rank: Rank },
    Left { rank: Rank },
    Abandoned { rank: Rank, signature: Signature },
    Garbled { rank: Rank },
}

impl Failure {
    /// Two ranks have called different collectives with one number.
    pub(super) fn mismatch(one: (Rank, Signature), other: (Rank, Signature)) -> Failure {
        Failure { from: one.1.number.min(other.1.number), cause: Cause::Mismatch { one, other } }
    }

    /// Writes code and a reserved byte, the ranks and two reserved bytes, the first number and the signatures; zeros
    /// stand for what is not there.
    pub(super) fn write(failure: Option<Failure>, out: &mut BodyWriter) {
        let (code, ranks, signatures) = match failure.map(|failure| failure.cause) {
            None => (0, [0, 0], [None, None]),
            Some(Cause::Mismatch { one, other }) => (1, [one.0.0, other.0.0], [Some(one.1), Some(other.1)]),
            Some(Cause::Gone { rank }) => (2, [rank.0, 0], [None, None]),
            Some(Cause::Left { rank }) => (3, [rank.0, 0], [None, None]),
            Some(Cause::Abandoned { rank, signature }) => (4, [rank.0, 0], [Some(signature), None]),
            Some(Cause::Garbled { rank }) => (5, [rank.0, 0], [None, None]),
        };
        out.u8(code).zeros(1).u16(ranks[0]).u16(ranks[1]).zeros(2).u64(failure.map_or(0, |failure| failure.from));
        signatures.into_iter().for_each(|signature| Signature::write_or_zeros(signature, out));
    }

    /// Reads what `write` writes, for a group of `size` ranks; `None` if it is malformed.
    pub(super) fn read(from: &mut BodyReader<'_>, size: u16) -> Option<Option<Failure>> {
        let (code, _, rank, other, _) = (from.u8()?, from.u8()?, Rank(from.u16()?), Rank(from.u16()?), from.u16()?);
        let (first, one) = (from.u64()?, from.bytes(Signature::BYTES)?);
        let signatures = [one, from.bytes(Signature::BYTES)?];
        let signature = |at: usize| Signature::split(signatures[at]).map(|(signature, _)| signature);
        let cause = match code {
            0 => return Some(None),
            1 => Cause::Mismatch { one: (rank, signature(0)?), other: (other, signature(1)?) },
            2 => Cause::Gone { rank },
            3 => Cause::Left { rank },
            4 => Cause::Abandoned { rank, signature: signature(0)? },
            5 => Cause::Garbled { rank },
            _ => return None,
        };
        (rank.max(other).0 < size).then_some(Some(Failure { from: first, cause }))
    }

    /// The same as an error of rank `own`, ranks by their names.
    pub(super) fn error(&self, own: Rank, roster: &Roster) -> CommunicatorError {
        let named = |rank: Rank| Named { rank, host: roster.host(rank).to_owned() };
        match self.cause {
            Cause::Mismatch { one, other } => {
                CommunicatorError::Mismatch { one: named(one.0), other: named(other.0), signatures: (one.1, other.1) }
            }
            Cause::Gone { rank } if rank == own => CommunicatorError::Outlawed,
            Cause::Gone { rank } => CommunicatorError::Gone(named(rank)),
            Cause::Left { rank } => CommunicatorError::Left(named(rank)),
            Cause::Abandoned { rank, signature } => CommunicatorError::Abandoned { rank: named(rank), signature },
            Cause::Garbled { rank } => CommunicatorError::Garbled(named(rank)),
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
        let causes = [
            Cause::Mismatch { one: (Rank(3), signature(7)), other: (Rank(1), signature(8)) },
            Cause::Gone { rank: Rank(3) },
            Cause::Left { rank: Rank(3) },
            Cause::Abandoned { rank: Rank(3), signature: signature(1) },
            Cause::Garbled { rank: Rank(3) },
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
