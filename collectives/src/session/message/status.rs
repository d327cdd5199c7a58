//! Reports of members and verdicts of the root: status, digest, outcome, liveness.

use super::{MemberState, Outcome};
use crate::membership::codec::{BodyReader, BodyWriter};
use ethbcast_transport::wire::Rank;

/// A BLAKE3 digest.
pub type Digest = [u8; 32];

/// Status report of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// State of the member.
    pub state: MemberState,
    /// Child that blocks it, if there is one.
    pub waits_for: Option<Rank>,
    /// Frames that have arrived in order.
    pub arrived: u64,
    /// Frames consumed by its application.
    pub consumed: u64,
    /// Whether no frame of that child was ever received.
    pub is_mute: bool,
}

/// Liveness challenge of a member, with a number that only it can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Random number that the root must return.
    pub word: u64,
    /// Number of times it was sent before.
    pub unanswered: u8,
}

impl Challenge {
    /// Number of unanswered challenges after which the response goes to the group, as unicast
    /// frames may not reach the member.
    const ALONE: u8 = 2;

    pub(in crate::session) fn is_for_all(self) -> bool {
        self.unanswered >= Challenge::ALONE
    }
}

/// Reports known to the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the session is over.
    pub over: bool,
    /// Length and digest of the stream, once known.
    pub trailer: Option<Trailer>,
    /// Bitmap of the ranks whose report the root has, least significant bit first.
    pub heard: Vec<u8>,
    /// Bitmap of the ranks whose digest is correct, of equal length.
    pub accepted: Vec<u8>,
}

impl Verdict {
    pub(in crate::session) fn names(bitmap: &[u8], rank: Rank) -> bool {
        bitmap.get(rank.index() / 8).is_some_and(|byte| byte >> (rank.0 % 8) & 1 == 1)
    }
}

/// Final report of a member about the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Outcome of the transfer.
    pub outcome: Outcome,
    /// Bytes received.
    pub bytes: u64,
    /// BLAKE3 digest of the bytes received.
    pub digest: Digest,
    /// Description of a failure.
    pub text: String,
}

impl Done {
    pub(in crate::session) fn is_success(&self) -> bool {
        matches!(self.outcome, Outcome::Verified | Outcome::Delivered)
    }

    /// Turns a false claim of success into a failure: a member with other bytes than were sent has
    /// damaged ones.
    pub(in crate::session) fn into_failure(self) -> Done {
        if !self.is_success() {
            return self;
        }
        let text = "it claims delivery of other bytes than were sent".to_owned();
        Done { outcome: Outcome::Damaged, text, ..self }
    }
}

/// Reception counters of a member: data frames received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    frames: u64,
    repaired: u64,
}

impl Taken {
    /// Creates the counters: `frames` received, of which `repaired` only as a retransmission;
    /// `None` if that is impossible.
    pub fn new(frames: u64, repaired: u64) -> Option<Taken> {
        (repaired <= frames).then_some(Taken { frames, repaired })
    }

    /// Returns the number of frames received.
    pub fn frames(self) -> u64 {
        self.frames
    }

    /// Returns the number of frames received only as a retransmission.
    pub fn repaired(self) -> u64 {
        self.repaired
    }

    pub(super) fn write(self, out: &mut BodyWriter) {
        out.u64(self.frames).u64(self.repaired);
    }

    /// Reads the counters behind a report; older builds do not send them.
    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<Taken> {
        Taken::new(from.u64()?, from.u64()?)
    }
}

/// Length and digest of a stream, carried by its last frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Bytes in the stream, without the trailer.
    pub bytes: u64,
    /// BLAKE3 digest of those bytes.
    pub digest: Digest,
}

impl Trailer {
    /// Length on the wire, in bytes.
    pub const BYTES: usize = 40;

    pub(in crate::session) fn encode(&self) -> Vec<u8> {
        let mut out = BodyWriter::default();
        out.u64(self.bytes).bytes(&self.digest);
        out.into_bytes()
    }

    pub(in crate::session) fn decode(payload: &[u8]) -> Option<Trailer> {
        let mut from = BodyReader::new(payload);
        Some(Trailer { bytes: from.u64()?, digest: from.array()? })
    }
}
