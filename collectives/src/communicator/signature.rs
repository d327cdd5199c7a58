//! Signature of a collective call (number, operation, root, length), by which ranks detect that
//! calls differ.

use crate::membership::codec::{BodyReader, BodyWriter};
use ethbcast_transport::wire::Rank;
use std::fmt;

/// A call that all ranks make together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Operation {
    /// Copies one rank's bytes to all.
    Broadcast = 1,
    /// Holds every rank until all have called it.
    Barrier = 2,
    /// Gives each rank a block, from one.
    Scatter = 3,
    /// Collects a block from each rank, at one.
    Gather = 4,
    /// Gives the blocks of all ranks to all.
    Allgather = 5,
}

impl Operation {
    const ALL: [Operation; 5] = [
        Operation::Broadcast,
        Operation::Barrier,
        Operation::Scatter,
        Operation::Gather,
        Operation::Allgather,
    ];

    fn from_wire(value: u8) -> Option<Operation> {
        Operation::ALL
            .into_iter()
            .find(|operation| *operation as u8 == value)
    }
}

/// One collective as a rank calls it. Calls with equal numbers must be equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// Number of collectives called before.
    pub number: u64,
    /// Operation.
    pub operation: Operation,
    /// Root; 0 for operations without one.
    pub root: Rank,
    /// Length of the message or of each block, in bytes.
    pub bytes: u64,
}

impl Signature {
    /// Length on the wire, in bytes: number, operation, reserved byte, root, four reserved bytes,
    /// length.
    pub(super) const BYTES: usize = 24;

    pub(super) fn write(self, out: &mut BodyWriter) {
        out.u64(self.number)
            .u8(self.operation as u8)
            .zeros(1)
            .u16(self.root.0)
            .zeros(4)
            .u64(self.bytes);
    }

    pub(super) fn write_or_zeros(signature: Option<Signature>, out: &mut BodyWriter) {
        match signature {
            Some(signature) => signature.write(out),
            None => _ = out.zeros(Signature::BYTES),
        }
    }

    pub(super) fn head(self, bytes: &[u8]) -> Vec<u8> {
        let mut out = BodyWriter::default();
        self.write(&mut out);
        out.bytes(bytes);
        out.into_bytes()
    }

    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<Signature> {
        let (number, operation, _) = (from.u64()?, Operation::from_wire(from.u8()?)?, from.u8()?);
        let (root, _, bytes) = (from.u16()?, from.u32()?, from.u64()?);
        Some(Signature {
            number,
            operation,
            root: Rank(root),
            bytes,
        })
    }

    pub(crate) fn split(wire: &[u8]) -> Option<(Signature, &[u8])> {
        let mut from = BodyReader::new(wire);
        Some((Signature::read(&mut from)?, from.rest()))
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Signature {
            number,
            operation,
            root,
            bytes,
        } = self;
        match operation {
            Operation::Broadcast => {
                write!(out, "broadcast #{number} of {bytes} bytes from rank {root}")
            }
            Operation::Barrier => write!(out, "barrier #{number}"),
            Operation::Scatter => write!(
                out,
                "scatter #{number} of {bytes} bytes each from rank {root}"
            ),
            Operation::Gather => {
                write!(out, "gather #{number} of {bytes} bytes each to rank {root}")
            }
            Operation::Allgather => write!(out, "allgather #{number} of {bytes} bytes each"),
        }
    }
}

#[cfg(test)]
mod signature_tests {
    use super::*;

    #[test]
    fn every_signature_is_read_as_it_was_written() {
        for (number, operation) in Operation::ALL.into_iter().enumerate() {
            let signature = Signature {
                number: number as u64,
                operation,
                root: Rank(0x0102),
                bytes: 1 << 40,
            };
            let wire = signature.head(b"data");
            assert_eq!(wire.len(), Signature::BYTES + 4);
            assert_eq!(Signature::split(&wire), Some((signature, &b"data"[..])));
        }
    }

    #[test]
    fn bytes_that_are_too_short_or_name_no_operation_are_no_signature() {
        let mut wire = Signature {
            number: 1,
            operation: Operation::Barrier,
            root: Rank(0),
            bytes: 0,
        }
        .head(&[]);
        assert_eq!(Signature::split(&wire[..23]), None);
        for operation in [0, 6, 255] {
            wire[8] = operation;
            assert_eq!(Signature::split(&wire), None);
        }
    }
}
