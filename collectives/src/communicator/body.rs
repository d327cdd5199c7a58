//! The bodies of the three control messages of a group without a root: CALL, ALIVE and BYE.

use super::failure::Failure;
use super::roll::Digest;
use super::signature::Signature;

/// CALL: a process looks for the others of its group, or answers one that does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) nonce: u64,
    pub(super) size: u16,
    pub(super) mtu_bytes: u16,
    pub(super) preset: u8,
    /// Whether the caller knows that all have the same list.
    pub(super) joined: bool,
    /// Of the list it has, zeros if it has not heard all.
    pub(super) digest: Digest,
    pub(super) group: String,
    pub(super) host: String,
}

/// The fixed part: nonce, size, MTU, preset, joined, digest.
const CALL_BYTES: usize = 8 + 2 + 2 + 1 + 1 + 32;

impl Call {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut wire = Vec::with_capacity(CALL_BYTES + 2 + self.group.len() + self.host.len());
        wire.extend(self.nonce.to_be_bytes());
        wire.extend(self.size.to_be_bytes());
        wire.extend(self.mtu_bytes.to_be_bytes());
        wire.extend([self.preset, u8::from(self.joined)]);
        wire.extend(self.digest);
        for text in [&self.group, &self.host] {
            wire.push(text.len() as u8);
            wire.extend(text.as_bytes());
        }
        wire
    }

    /// `None` if it is malformed.
    pub(super) fn decode(wire: &[u8]) -> Option<Call> {
        let (fixed, rest) = wire.split_first_chunk::<CALL_BYTES>()?;
        let (group, rest) = split_text(rest)?;
        let (host, _) = split_text(rest)?;
        Some(Call {
            nonce: u64::from_be_bytes(fixed[..8].try_into().ok()?),
            size: u16::from_be_bytes([fixed[8], fixed[9]]),
            mtu_bytes: u16::from_be_bytes([fixed[10], fixed[11]]),
            preset: fixed[12],
            joined: fixed[13] != 0,
            digest: fixed[14..].try_into().ok()?,
            group,
            host,
        })
    }
}

fn split_text(wire: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = wire.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((String::from_utf8_lossy(text).into_owned(), rest))
}

/// How many of its last calls a member tells of: as many as it may make before the others hear of the one that differs.
pub(super) const TOLD_CALLS: usize = 4;

/// ALIVE and BYE: what a member has called last, and why it cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// The collectives it has called last, the newest first.
    pub(super) calls: [Option<Signature>; TOLD_CALLS],
    pub(super) failure: Option<Failure>,
    /// BYE: how often it will be repeated.
    pub(super) repeats: u8,
}

impl Notice {
    const CALLS_AT: usize = 8;
    const FAILURE_AT: usize = Notice::CALLS_AT + TOLD_CALLS * Signature::BYTES;
    pub(super) const BYTES: usize = Notice::FAILURE_AT + Failure::BYTES;

    pub(super) fn encode(&self) -> [u8; Notice::BYTES] {
        let mut wire = [0; Notice::BYTES];
        wire[0] = self.repeats;
        for (place, call) in wire[Notice::CALLS_AT..].chunks_exact_mut(Signature::BYTES).zip(self.calls) {
            place.copy_from_slice(&call.map_or([0; Signature::BYTES], Signature::encode));
        }
        wire[Notice::FAILURE_AT..].copy_from_slice(&Failure::encode(self.failure));
        wire
    }

    /// `None` if it is malformed.
    pub(super) fn decode(wire: &[u8], size: u16) -> Option<Notice> {
        let (wire, _) = wire.split_first_chunk::<{ Notice::BYTES }>()?;
        let failure = Failure::decode(wire[Notice::FAILURE_AT..].first_chunk()?, size)?;
        let mut calls = [None; TOLD_CALLS];
        for (call, place) in calls.iter_mut().zip(wire[Notice::CALLS_AT..].chunks_exact(Signature::BYTES)) {
            if place.iter().any(|&byte| byte != 0) {
                *call = Some(Signature::split(place)?.0);
            }
        }
        Some(Notice { calls, failure, repeats: wire[0] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communicator::failure::What;
    use crate::communicator::signature::Operation;
    use proptest::prelude::*;

    #[test]
    fn calls_and_notices_are_read_as_they_were_written() {
        let call = Call {
            nonce: 1 << 60,
            size: 8,
            mtu_bytes: 1500,
            preset: 1,
            joined: true,
            digest: [7; 32],
            group: "g".into(),
            host: "n0".into(),
        };
        assert_eq!(Call::decode(&call.encode()), Some(call.clone()));
        assert_eq!(Call::decode(&call.encode()[..call.encode().len() - 1]), None, "cut short");
        let last = Some(Signature { number: 0, operation: Operation::Barrier, root: 0, bytes: 0 });
        let failure = Some(Failure { from: 3, what: What::Gone { rank: 1 } });
        let calls = [last, None, None, None];
        for notice in [Notice { calls, failure, repeats: 2 }, Notice { calls: [None; 4], failure: None, repeats: 0 }] {
            assert_eq!(Notice::decode(&notice.encode(), 2), Some(notice));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(wire in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (Call::decode(&wire), Notice::decode(&wire, 3));
        }
    }
}
