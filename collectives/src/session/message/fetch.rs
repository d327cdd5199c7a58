//! Bytes of the stream that are asked for again, and how they come.

use crate::membership::codec::{BodyReader, BodyWriter};
use crate::session::ledger::ChunkSet;
use ethbcast_transport::wire::Rank;
use std::ops::Range;

/// So many bytes are asked for at a time; a multiple of every piece of the stream that can be checked alone.
pub(in crate::session) const MOST_FETCH_BYTES: u64 = 128 << 10;

/// So often a receiver may ask for the same bytes because they came damaged again.
pub(in crate::session) const MOST_ATTEMPTS: u8 = 3;

/// The longest set of chunks in a [`Needs`].
const MOST_SET_BYTES: usize = ChunkSet::MOST_BYTES;

/// A member asks the root for bytes of the stream, or the root another member that keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Who lacks them.
    pub rank: Rank,
    /// Which they are, counted from the first byte of the stream.
    pub bytes: Range<u64>,
    /// How often they have been asked for, this time counted, because what came was damaged; 0 if they were never sent
    /// to it: it alone lacks them.
    pub attempt: u8,
    /// Who sent them to the one who lacks them; [`Rank::NONE`] if that is not known, or it was not one alone.
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

    /// Whether it asks for something, and for no more than anybody may at a time.
    pub(in crate::session) fn is_bounded(&self) -> bool {
        let bytes = self.bytes.end.checked_sub(self.bytes.start);
        bytes.is_some_and(|bytes| (1..=MOST_FETCH_BYTES).contains(&bytes)) && self.attempt <= MOST_ATTEMPTS
    }
}

/// What a member lacks of a stretch of the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The stretch.
    pub stretch: u64,
    /// Its chunks that are lacking, as [`ChunkSet::write`] writes them.
    pub set: Vec<u8>,
}

impl Needs {
    pub(super) fn write(&self, out: &mut BodyWriter) {
        out.u64(self.stretch).bytes(&self.set);
    }

    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<Needs> {
        let (stretch, set) = (from.u64()?, from.rest());
        (set.len() <= MOST_SET_BYTES).then(|| Needs { stretch, set: set.to_vec() })
    }
}

/// Some of the bytes that a [`Fetch`] asked for; or none, and an end where they begin: they cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where they begin.
    pub from: u64,
    /// Where the portion that is answered at a time ends.
    pub end: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Piece {
    /// Bytes of the stream that fit a frame of so much payload.
    pub(in crate::session) fn fitting(payload_bytes: usize) -> usize {
        payload_bytes.saturating_sub(size_of::<[u64; 2]>()).max(1)
    }

    /// The answer of one that does not have what begins here.
    pub(in crate::session) fn denial(from: u64) -> Piece {
        Piece { from, end: from, bytes: Vec::new() }
    }

    /// Whether it says that the bytes cannot be had.
    pub(in crate::session) fn is_denial(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Which bytes these are; none if they do not lie before the end of the portion.
    pub(in crate::session) fn range(&self) -> Option<Range<u64>> {
        let to = self.from.checked_add(self.bytes.len() as u64)?;
        (to <= self.end).then_some(self.from..to)
    }

    pub(super) fn write(&self, out: &mut BodyWriter) {
        out.u64(self.from).u64(self.end).bytes(&self.bytes);
    }

    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<Piece> {
        Some(Piece { from: from.u64()?, end: from.u64()?, bytes: from.rest().to_vec() })
    }
}
