//! Signature of a collective: its number, operation, root and length; and its encoding.

use super::error::Failure;
use super::network::SpreadMessage;
use super::roster::RosterDigest;
use crate::membership::codec::{BodyReader, BodyWriter};
use ethbcast_transport::wire::Rank;
use std::fmt;

/// A call that all ranks make together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Operation {
    /// One rank's bytes to all.
    Broadcast = 1,
    /// No rank goes on before all are there.
    Barrier = 2,
    /// A block for each rank, from one.
    Scatter = 3,
    /// A block from each rank, to one.
    Gather = 4,
    /// A block from each rank, to all.
    Allgather = 5,
}

impl Operation {
    const ALL: [Operation; 5] =
        [Operation::Broadcast, Operation::Barrier, Operation::Scatter, Operation::Gather, Operation::Allgather];

    fn from_wire(value: u8) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| *operation as u8 == value)
    }
}

/// One collective as a rank calls it. Calls with equal numbers must be equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// Number of collectives called before.
    pub number: u64,
    /// Operation.
    pub operation: Operation,
    /// Root; 0 where there is none.
    pub root: Rank,
    /// Length of the message or of each block, in bytes.
    pub bytes: u64,
}

impl Signature {
    /// Length on the wire, in bytes: number, operation, reserved byte, root, four reserved bytes,
    /// length.
    pub(super) const BYTES: usize = 24;

    pub(super) fn write(self, out: &mut BodyWriter) {
        out.u64(self.number).u8(self.operation as u8).zeros(1).u16(self.root.0).zeros(4).u64(self.bytes);
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
        Some(Signature { number, operation, root: Rank(root), bytes })
    }

    pub(super) fn split(wire: &[u8]) -> Option<(Signature, &[u8])> {
        let mut from = BodyReader::new(wire);
        Some((Signature::read(&mut from)?, from.rest()))
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Signature { number, operation, root, bytes } = self;
        match operation {
            Operation::Broadcast => write!(out, "broadcast #{number} of {bytes} bytes from rank {root}"),
            Operation::Barrier => write!(out, "barrier #{number}"),
            Operation::Scatter => write!(out, "scatter #{number} of {bytes} bytes each from rank {root}"),
            Operation::Gather => write!(out, "gather #{number} of {bytes} bytes each to rank {root}"),
            Operation::Allgather => write!(out, "allgather #{number} of {bytes} bytes each"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallBody {
    pub nonce: u64,
    pub size: u16,
    pub mtu_bytes: u16,
    pub preset: u8,
    pub joined: bool,
    /// Digest of the sender's list; zeros if the list is incomplete.
    pub digest: RosterDigest,
    pub group: String,
    pub host: String,
    pub network: SpreadMessage,
}

impl CallBody {
    pub(super) fn bytes(group: &str, host: &str) -> usize {
        8 + 2 + 2 + 1 + 1 + 32 + 1 + group.len() + 1 + host.len() + SpreadMessage::BYTES
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = BodyWriter::default();
        out.u64(self.nonce)
            .u16(self.size)
            .u16(self.mtu_bytes)
            .u8(self.preset)
            .u8(u8::from(self.joined))
            .bytes(&self.digest);
        self.network.write(out.name(&self.group).name(&self.host));
        out.into_bytes()
    }

    pub(super) fn decode(wire: &[u8]) -> Option<CallBody> {
        let mut from = BodyReader::new(wire);
        Some(CallBody {
            nonce: from.u64()?,
            size: from.u16()?,
            mtu_bytes: from.u16()?,
            preset: from.u8()?,
            joined: from.u8()? != 0,
            digest: from.array()?,
            group: from.text()?,
            host: from.text()?,
            network: SpreadMessage::read(&mut from)?,
        })
    }

    /// Reads the names of group and host from a call of an earlier version, which ended with them.
    pub(super) fn names(wire: &[u8]) -> Option<(String, String)> {
        let mut from = BodyReader::new(wire);
        from.bytes(8 + 2 + 2 + 1 + 1 + 32)?;
        Some((from.text()?, from.text()?))
    }
}

/// Recent calls in each status message: as many as a member may make before the others learn of one
/// that differs.
pub(super) const TOLD_CALLS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub calls: [Option<Signature>; TOLD_CALLS],
    pub failure: Option<Failure>,
    pub waits_for: Option<Rank>,
    /// Low bits of the member's progress counter.
    pub moved: u16,
    /// BYE: repetitions still to come.
    pub repeats: u8,
}

impl Notice {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = BodyWriter::default();
        out.u8(self.repeats).zeros(1).u16(self.waits_for.unwrap_or(Rank::NONE).0).u16(self.moved).zeros(2);
        self.calls.into_iter().for_each(|call| Signature::write_or_zeros(call, &mut out));
        Failure::write(self.failure, &mut out);
        out.into_bytes()
    }

    pub(super) fn decode(wire: &[u8], size: u16) -> Option<Notice> {
        let mut from = BodyReader::new(wire);
        let (repeats, _) = (from.u8()?, from.u8()?);
        let (waits_for, moved, _) = (Rank(from.u16()?), from.u16()?, from.u16()?);
        if waits_for != Rank::NONE && waits_for.0 >= size {
            return None;
        }
        let waits_for = Some(waits_for).filter(|&rank| rank != Rank::NONE);
        let mut calls = [None; TOLD_CALLS];
        for call in &mut calls {
            let bytes = from.bytes(Signature::BYTES)?;
            if bytes.iter().any(|&byte| byte != 0) {
                *call = Some(Signature::split(bytes)?.0);
            }
        }
        Some(Notice { calls, failure: Failure::read(&mut from, size)?, waits_for, moved, repeats })
    }
}

#[cfg(test)]
mod signature_tests {
    use super::*;

    #[test]
    fn every_signature_is_read_as_it_was_written() {
        for (number, operation) in Operation::ALL.into_iter().enumerate() {
            let signature = Signature { number: number as u64, operation, root: Rank(0x0102), bytes: 1 << 40 };
            let wire = signature.head(b"data");
            assert_eq!(wire.len(), Signature::BYTES + 4);
            assert_eq!(Signature::split(&wire), Some((signature, &b"data"[..])));
        }
    }

    #[test]
    fn what_is_too_short_or_no_operation_is_no_signature() {
        let mut wire = Signature { number: 1, operation: Operation::Barrier, root: Rank(0), bytes: 0 }.head(&[]);
        assert_eq!(Signature::split(&wire[..23]), None);
        for operation in [0, 6, 255] {
            wire[8] = operation;
            assert_eq!(Signature::split(&wire), None);
        }
    }
}

#[cfg(test)]
mod body_tests {
    use super::*;
    use crate::communicator::error::Cause;
    use crate::communicator::signature::Operation;
    use proptest::prelude::*;

    #[test]
    fn calls_and_notices_are_read_as_they_were_written() {
        let call = CallBody {
            nonce: 1 << 60,
            size: 8,
            mtu_bytes: 1500,
            preset: 1,
            joined: true,
            digest: [7; 32],
            group: "g".into(),
            host: "n0".into(),
            network: SpreadMessage { told: true, unfit: true, list: 5, network: 9, piece: None },
        };
        assert_eq!(call.encode().len(), CallBody::bytes("g", "n0"));
        assert_eq!(CallBody::names(&call.encode()), Some(("g".to_owned(), "n0".to_owned())));
        assert_eq!(CallBody::decode(&call.encode()), Some(call.clone()));
        assert_eq!(CallBody::decode(&call.encode()[..call.encode().len() - 1]), None, "cut short");
        let last = Some(Signature { number: 0, operation: Operation::Barrier, root: Rank(0), bytes: 0 });
        let failure = Some(Failure { from: 3, cause: Cause::Gone { rank: Rank(1) } });
        let calls = [last, None, None, None];
        let told = Notice { calls, failure, waits_for: Some(Rank(1)), moved: 0x102, repeats: 2 };
        for notice in [told, Notice { calls: [None; 4], failure: None, waits_for: None, moved: 0, repeats: 0 }] {
            assert_eq!(Notice::decode(&notice.encode(), 2), Some(notice));
        }
        assert_eq!(Notice::decode(&told.encode(), 1), None, "there is no rank 1");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(wire in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (CallBody::decode(&wire), Notice::decode(&wire, 3));
        }
    }
}
