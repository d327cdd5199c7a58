//! What members and root say of the bytes: how far they are, what they add up to, what became of them.

use super::{MemberState, Outcome};
use crate::membership::codec::{BodyReader, BodyWriter};
use ethbcast_transport::wire::Rank;

/// A BLAKE3 digest.
pub type Digest = [u8; 32];

/// What a member says of itself with each sign of life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// What it is busy with.
    pub state: MemberState,
    /// The child for which it cannot go on, if there is one.
    pub waits_for: Option<Rank>,
    /// Frames that have arrived in order.
    pub arrived: u64,
    /// Frames that its application has taken.
    pub consumed: u64,
    /// Nothing was ever heard of that child.
    pub is_mute: bool,
}

/// A member asks the root for a word back that nobody else can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The word, drawn anew for each question.
    pub word: u64,
    /// How often it has been asked for before.
    pub unanswered: u8,
}

impl Challenge {
    /// What is sent to it alone may not reach a member whom what is sent to all does: after so many questions the
    /// answer is for all to hear.
    const ALONE: u8 = 2;

    /// Whether the answer goes to the group.
    pub(in crate::session) fn is_for_all(self) -> bool {
        self.unanswered >= Challenge::ALONE
    }
}

/// What the root knows of all members' reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the session is over.
    pub over: bool,
    /// What the stream adds up to, once the root knows.
    pub trailer: Option<Trailer>,
    /// A bit for each rank whose report the root has, least significant first.
    pub heard: Vec<u8>,
    /// As many bytes: a bit for each rank whose bytes are what was sent.
    pub accepted: Vec<u8>,
}

impl Verdict {
    /// Whether a bitmap has the bit of a rank.
    pub(in crate::session) fn names(bitmap: &[u8], rank: Rank) -> bool {
        bitmap.get(rank.index() / 8).is_some_and(|byte| byte >> (rank.0 % 8) & 1 == 1)
    }
}

/// What became of the stream at a member, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// How it fared.
    pub outcome: Outcome,
    /// Bytes it received.
    pub bytes: u64,
    /// Their BLAKE3.
    pub digest: Digest,
    /// A sentence on a failure.
    pub text: String,
}

impl Done {
    /// Whether all is well so far.
    pub(in crate::session) fn is_success(&self) -> bool {
        matches!(self.outcome, Outcome::Verified | Outcome::Delivered)
    }

    /// The same for a root that knows better: whoever has other bytes than were sent has damaged ones.
    pub(in crate::session) fn into_failure(self) -> Done {
        if !self.is_success() {
            return self;
        }
        let text = "it claims delivery of other bytes than were sent".to_owned();
        Done { outcome: Outcome::Damaged, text, ..self }
    }
}

/// Data frames that a member has taken, as it counts them itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    frames: u64,
    repaired: u64,
}

impl Taken {
    /// So many frames, and how many of them came only when they were sent again; nothing that cannot be.
    pub fn new(frames: u64, repaired: u64) -> Option<Taken> {
        (repaired <= frames).then_some(Taken { frames, repaired })
    }

    /// Frames that came.
    pub fn frames(self) -> u64 {
        self.frames
    }

    /// Those of them that came only when they were sent again.
    pub fn repaired(self) -> u64 {
        self.repaired
    }

    pub(super) fn write(self, out: &mut BodyWriter) {
        out.u64(self.frames).u64(self.repaired);
    }

    /// What stands behind a report, if it is there and can be: builds before it say nothing.
    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<Taken> {
        Taken::new(from.u64()?, from.u64()?)
    }
}

/// What the last frame of every stream carries: what all the others add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Bytes in the stream, this trailer not counted.
    pub bytes: u64,
    /// BLAKE3 of those bytes.
    pub digest: Digest,
}

impl Trailer {
    /// Bytes on the wire.
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
