//! Why a group's collectives cannot go on: found by one rank, told to all.

use super::error::{CommunicatorError, Named};
use super::roll::Roll;
use super::signature::Signature;

/// A reason, and the first collective it stands in the way of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Collectives with lower numbers may still succeed.
    pub(super) from: u64,
    pub(super) what: What,
}

/// See the variants of [`CommunicatorError`] with the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Mismatch { one: (u16, Signature), other: (u16, Signature) },
    Gone { rank: u16 },
    Left { rank: u16 },
    Abandoned { rank: u16, signature: Signature },
    Garbled { rank: u16 },
}

impl Failure {
    pub(super) const BYTES: usize = 16 + 2 * Signature::BYTES;

    /// Two ranks have called different collectives with one number.
    pub(super) fn mismatch(one: (u16, Signature), other: (u16, Signature)) -> Failure {
        Failure { from: one.1.number.min(other.1.number), what: What::Mismatch { one, other } }
    }

    /// Writes code, two reserved bytes, the ranks, the first number and the signatures; zeros stand for what is not there.
    pub(super) fn encode(failure: Option<Failure>) -> [u8; Failure::BYTES] {
        let mut wire = [0; Failure::BYTES];
        let Some(Failure { from, what }) = failure else { return wire };
        let (code, ranks, signatures) = match what {
            What::Mismatch { one, other } => (1, [one.0, other.0], [Some(one.1), Some(other.1)]),
            What::Gone { rank } => (2, [rank, 0], [None, None]),
            What::Left { rank } => (3, [rank, 0], [None, None]),
            What::Abandoned { rank, signature } => (4, [rank, 0], [Some(signature), None]),
            What::Garbled { rank } => (5, [rank, 0], [None, None]),
        };
        wire[0] = code;
        wire[2..4].copy_from_slice(&ranks[0].to_be_bytes());
        wire[4..6].copy_from_slice(&ranks[1].to_be_bytes());
        wire[8..16].copy_from_slice(&from.to_be_bytes());
        for (place, signature) in wire[16..].chunks_exact_mut(Signature::BYTES).zip(signatures) {
            place.copy_from_slice(&signature.map_or([0; Signature::BYTES], Signature::encode));
        }
        wire
    }

    /// Reads what `encode` writes, for a group of `size` ranks; `None` if it is malformed.
    pub(super) fn decode(wire: &[u8; Failure::BYTES], size: u16) -> Option<Option<Failure>> {
        let number = |at: usize| u16::from_be_bytes([wire[at], wire[at + 1]]);
        let (rank, other) = (number(2), number(4));
        let signature = |at: usize| Signature::split(&wire[16 + at * Signature::BYTES..]).map(|(signature, _)| signature);
        let from = u64::from_be_bytes(wire[8..16].try_into().ok()?);
        let what = match wire[0] {
            0 => return Some(None),
            1 => What::Mismatch { one: (rank, signature(0)?), other: (other, signature(1)?) },
            2 => What::Gone { rank },
            3 => What::Left { rank },
            4 => What::Abandoned { rank, signature: signature(0)? },
            5 => What::Garbled { rank },
            _ => return None,
        };
        (rank < size && other < size).then_some(Some(Failure { from, what }))
    }

    /// The same as an error of rank `own`, ranks by their names.
    pub(super) fn error(&self, own: u16, roll: &Roll) -> CommunicatorError {
        let named = |rank: u16| Named { rank, host: roll.host(rank).to_owned() };
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
        for failure in whats.map(|what| Failure { from: 7, what }) {
            let wire = Failure::encode(Some(failure));
            assert_eq!(Failure::decode(&wire, 4), Some(Some(failure)));
            assert_eq!(Failure::decode(&wire, 3), None, "there is no rank 3");
        }
        assert_eq!(Failure::decode(&Failure::encode(None), 4), Some(None));
    }
}
