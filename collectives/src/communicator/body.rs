//! Wire format of a communicator's control messages: join (CALL), keepalive (ALIVE), leave (BYE),
//! SHRINK.

use super::error::Failure;
use super::kind;
use super::network::SpreadMessage;
use super::roster::{RankSet, RosterDigest};
use super::signature::Signature;
use crate::membership::codec::{BodyReader, BodyWriter};
use ethbcast_transport::wire::{Kind, Rank};

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

/// Recent calls in each status message: a member may make this many before the others learn of one
/// that differs.
pub(super) const REPORTED_CALLS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub calls: [Option<Signature>; REPORTED_CALLS],
    pub failure: Option<Failure>,
    pub waits_for: Option<Rank>,
    pub moved: u16,
    pub repeats: u8,
}

impl Notice {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = BodyWriter::default();
        out.u8(self.repeats)
            .zeros(1)
            .u16(self.waits_for.unwrap_or(Rank::NONE).0)
            .u16(self.moved)
            .zeros(2);
        self.calls
            .into_iter()
            .for_each(|call| Signature::write_or_zeros(call, &mut out));
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
        let mut calls = [None; REPORTED_CALLS];
        for call in &mut calls {
            let bytes = from.bytes(Signature::BYTES)?;
            if bytes.iter().any(|&byte| byte != 0) {
                *call = Some(Signature::split(bytes)?.0);
            }
        }
        Some(Notice {
            calls,
            failure: Failure::read(&mut from, size)?,
            waits_for,
            moved,
            repeats,
        })
    }
}

/// Stage of a rank that shrinks the group: it has named those that it considers lost; all that are
/// left have named equal ranks; it has gone on without them, because all that are left have agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum ShrinkStage {
    Proposed = 1,
    Agreed,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShrinkBody {
    pub stage: ShrinkStage,
    pub lost: RankSet,
}

impl ShrinkBody {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = BodyWriter::default();
        out.u8(self.stage as u8).zeros(3).bytes(self.lost.bits());
        out.into_bytes()
    }

    pub(super) fn decode(wire: &[u8]) -> Option<ShrinkBody> {
        let mut from = BodyReader::new(wire);
        let stage = match from.u8()? {
            1 => ShrinkStage::Proposed,
            2 => ShrinkStage::Agreed,
            3 => ShrinkStage::Done,
            _ => return None,
        };
        from.bytes(3)?;
        Some(ShrinkBody {
            stage,
            lost: RankSet::of_bits(from.rest()),
        })
    }
}

/// Whether a body is one of its kind; the number of ranks is unknown, so any rank is accepted.
pub(crate) fn is_well_formed(kind: Kind, body: &[u8]) -> bool {
    match kind {
        kind::CALL => CallBody::decode(body).is_some(),
        kind::ALIVE | kind::BYE => Notice::decode(body, Rank::NONE.0).is_some(),
        kind::SHRINK => ShrinkBody::decode(body).is_some(),
        _ => false,
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
            network: SpreadMessage {
                told: true,
                unfit: true,
                list: 5,
                network: 9,
                piece: None,
            },
        };
        assert_eq!(call.encode().len(), CallBody::bytes("g", "n0"));
        assert_eq!(
            CallBody::names(&call.encode()),
            Some(("g".to_owned(), "n0".to_owned()))
        );
        assert_eq!(CallBody::decode(&call.encode()), Some(call.clone()));
        assert_eq!(
            CallBody::decode(&call.encode()[..call.encode().len() - 1]),
            None,
            "cut short"
        );
        let last = Some(Signature {
            number: 0,
            operation: Operation::Barrier,
            root: Rank(0),
            bytes: 0,
        });
        let failure = Some(Failure {
            from: 3,
            cause: Cause::Gone { rank: Rank(1) },
        });
        let calls = [last, None, None, None];
        let told = Notice {
            calls,
            failure,
            waits_for: Some(Rank(1)),
            moved: 0x102,
            repeats: 2,
        };
        for notice in [
            told,
            Notice {
                calls: [None; 4],
                failure: None,
                waits_for: None,
                moved: 0,
                repeats: 0,
            },
        ] {
            assert_eq!(Notice::decode(&notice.encode(), 2), Some(notice));
        }
        assert_eq!(
            Notice::decode(&told.encode(), 1),
            None,
            "there is no rank 1"
        );
        for stage in [
            ShrinkStage::Proposed,
            ShrinkStage::Agreed,
            ShrinkStage::Done,
        ] {
            let body = ShrinkBody {
                stage,
                lost: RankSet::of_bits(&[0b110, 1]),
            };
            assert_eq!(ShrinkBody::decode(&body.encode()), Some(body));
        }
        assert_eq!(
            (
                ShrinkBody::decode(&[0, 0, 0, 0]),
                ShrinkBody::decode(&[1, 0, 0])
            ),
            (None, None)
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(wire in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (CallBody::decode(&wire), Notice::decode(&wire, 3), ShrinkBody::decode(&wire));
        }
    }
}
