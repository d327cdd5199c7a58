//! Messages of repair and of want-bitmaps.

use crate::membership::codec::{BodyReader, BodyWriter};
use crate::session::verified::ChunkSet;
use ethbcast_transport::wire::Rank;
use std::ops::Range;

/// Maximum bytes of a request; a multiple of every unit of the stream that can be verified alone.
pub(in crate::session) const MAX_FETCH_BYTES: u64 = 128 << 10;

/// Maximum number of requests for the same damaged bytes.
pub(in crate::session) const MAX_ATTEMPTS: u8 = 3;

const MAX_SET_BYTES: usize = ChunkSet::MAX_BYTES;

/// Request for bytes of the stream: of a member to the root, or of the root to a member that keeps
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Rank of the member that lacks them.
    pub rank: Rank,
    /// Range in the stream.
    pub bytes: Range<u64>,
    /// Number of this request for damaged bytes, from 1; 0 if the bytes were never sent to the
    /// member, which alone lacks them.
    pub attempt: u8,
    /// Host that sent them to the member; [`Rank::NONE`] if unknown, or if there were several.
    pub blamed: Rank,
}

impl Fetch {
    pub(super) fn write(&self, out: &mut BodyWriter) {
        let Fetch { rank, bytes, attempt, blamed } = self;
        out.u16(rank.0).u16(blamed.0).u8(*attempt).zeros(3).u64(bytes.start).u64(bytes.end);
    }

    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<Fetch> {
        let (rank, blamed, attempt) = (Rank(from.u16()?), Rank(from.u16()?), from.u8()?);
        from.bytes(3)?;
        Some(Fetch { rank, bytes: from.u64()?..from.u64()?, attempt, blamed })
    }

    pub(in crate::session) fn is_bounded(&self) -> bool {
        let bytes = self.bytes.end.checked_sub(self.bytes.start);
        bytes.is_some_and(|bytes| (1..=MAX_FETCH_BYTES).contains(&bytes)) && self.attempt <= MAX_ATTEMPTS
    }
}

/// Want-bitmap of a member for one stretch of the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Number of the stretch.
    pub stretch: u64,
    /// Set of missing chunks, as encoded by [`ChunkSet::write`].
    pub set: Vec<u8>,
}

impl Needs {
    pub(super) fn write(&self, out: &mut BodyWriter) {
        out.u64(self.stretch).bytes(&self.set);
    }

    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<Needs> {
        let (stretch, set) = (from.u64()?, from.rest());
        (set.len() <= MAX_SET_BYTES).then(|| Needs { stretch, set: set.to_vec() })
    }
}

/// Part of the reply to a [`Fetch`]. Without bytes, and with `end` equal to `from`, it says that
/// they are unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPiece {
    /// Start of the bytes in the stream.
    pub from: u64,
    /// End of the portion that is sent at a time.
    pub end: u64,
    /// Bytes of the stream.
    pub bytes: Vec<u8>,
}

impl FetchedPiece {
    pub(in crate::session) fn fitting(payload_bytes: usize) -> usize {
        payload_bytes.saturating_sub(size_of::<[u64; 2]>()).max(1)
    }

    pub(in crate::session) fn denial(from: u64) -> FetchedPiece {
        FetchedPiece { from, end: from, bytes: Vec::new() }
    }

    pub(in crate::session) fn is_denial(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(in crate::session) fn range(&self) -> Option<Range<u64>> {
        let to = self.from.checked_add(self.bytes.len() as u64)?;
        (to <= self.end).then_some(self.from..to)
    }

    pub(super) fn write(&self, out: &mut BodyWriter) {
        out.u64(self.from).u64(self.end).bytes(&self.bytes);
    }

    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<FetchedPiece> {
        Some(FetchedPiece { from: from.u64()?, end: from.u64()?, bytes: from.rest().to_vec() })
    }
}
