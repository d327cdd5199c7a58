//! Why a group's collectives cannot go on: found by one rank, told to all.

use super::error::{CommunicatorError, Named};
use super::roster::Roster;
use super::signature::Signature;
use crate::membership::codec::{Reader, Writer};

/// A reason, and the first collective it stands in the way of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Collectives with lower numbers may still succeed.
    pub(super) from: u64,
    pub(super) what: What,
}

/// See the variants of [`CommunicatorError`] with the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Mismatch { one: (u16, Signature), other: (u16, Signature) },
    Gone { rank: u16 },
    Left { rank: u16 },
    Abandoned { rank: u16, signature: Signature },
    Garbled { rank: u16 },
}

impl Failure {
    /// Two ranks have called different collectives with one number.
    pub(super) fn mismatch(one: (u16, Signature), other: (u16, Signature)) -> Failure {
        Failure { from: one.1.number.min(other.1.number), what: What::Mismatch { one, other } }
    }

    /// Writes code and a reserved byte, the ranks and two reserved bytes, the first number and the signatures; zeros stand for what is not there.
    pub(super) fn write(failure: Option<Failure>, out: &mut Writer) {
        let (code, ranks, signatures) = match failure.map(|failure| failure.what) {
            None => (0, [0, 0], [None, None]),
            Some(What::Mismatch { one, other }) => (1, [one.0, other.0], [Some(one.1), Some(other.1)]),
            Some(What::Gone { rank }) => (2, [rank, 0], [None, None]),
            Some(What::Left { rank }) => (3, [rank, 0], [None, None]),
            Some(What::Abandoned { rank, signature }) => (4, [rank, 0], [Some(signature), None]),
            Some(What::Garbled { rank }) => (5, [rank, 0], [None, None]),
        };
        out.u8(code).zeros(1).u16(ranks[0]).u16(ranks[1]).zeros(2).u64(failure.map_or(0, |failure| failure.from));
        signatures.into_iter().for_each(|signature| Signature::write_or_zeros(signature, out));
    }

    /// Reads what `write` writes, for a group of `size` ranks; `None` if it is malformed.
    pub(super) fn read(from: &mut Reader<'_>, size: u16) -> Option<Option<Failure>> {
        let (code, _, rank, other, _) = (from.u8()?, from.u8()?, from.u16()?, from.u16()?, from.u16()?);
        let (first, one) = (from.u64()?, from.bytes(Signature::BYTES)?);
        let signatures = [one, from.bytes(Signature::BYTES)?];
        let signature = |at: usize| Signature::split(signatures[at]).map(|(signature, _)| signature);
        let what = match code {
            0 => return Some(None),
            1 => What::Mismatch { one: (rank, signature(0)?), other: (other, signature(1)?) },
            2 => What::Gone { rank },
            3 => What::Left { rank },
            4 => What::Abandoned { rank, signature: signature(0)? },
            5 => What::Garbled { rank },
            _ => return None,
        };
        (rank < size && other < size).then_some(Some(Failure { from: first, what }))
    }

    /// The same as an error of rank `own`, ranks by their names.
    pub(super) fn error(&self, own: u16, roster: &Roster) -> CommunicatorError {
        let named = |rank: u16| Named { rank, host: roster.host(rank).to_owned() };
        match self.what {
            What::Mismatch { one, other } => {
                CommunicatorError::Mismatch { one: named(one.0), other: named(other.0), signatures: (one.1, other.1) }
            }
            What::Gone { rank } if rank == own => CommunicatorError::Outlawed,
            What::Gone { rank } => CommunicatorError::Gone(named(rank)),
            What::Left { rank } => CommunicatorError::Left(named(rank)),
            What::Abandoned { rank, signature } => CommunicatorError::Abandoned { rank: named(rank), signature },
            What::Garbled { rank } => CommunicatorError::Garbled(named(rank)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communicator::signature::Operation;

    fn signature(number: u64) -> Signature {
        Signature { number, operation: Operation::Gather, root: 3, bytes: 9 }
    }

    #[test]
    fn every_failure_is_read_as_it_was_written_and_ranks_that_do_not_exist_are_refused() {
        let whats = [
            What::Mismatch { one: (3, signature(7)), other: (1, signature(8)) },
            What::Gone { rank: 3 },
            What::Left { rank: 3 },
            What::Abandoned { rank: 3, signature: signature(1) },
            What::Garbled { rank: 3 },
        ];
        let write = |failure| {
            let mut out = Writer::default();
            Failure::write(failure, &mut out);
            out.into_bytes()
        };
        let read = |wire: &[u8], size| Failure::read(&mut Reader::new(wire), size);
        for failure in whats.map(|what| Failure { from: 7, what }) {
            let wire = write(Some(failure));
            assert_eq!(wire.len(), 16 + 2 * Signature::BYTES);
            assert_eq!(read(&wire, 4), Some(Some(failure)));
            assert_eq!(read(&wire, 3), None, "there is no rank 3");
        }
        assert_eq!(read(&write(None), 4), Some(None));
    }
}
