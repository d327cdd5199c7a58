//! Index of the content-defined chunks of the bases by their hashes.

use super::basis::Basis;
use ethbcast_collectives::session::verified::{ChunkSize, Cut, Cutter, Fragment};

/// Limit on indexed chunks: 16 MiB of memory. Beyond it every second one is dropped, then every
/// fourth, and so on; the dropped ones are found through their neighbours.
const MAX_FRAGMENTS: usize = 1 << 20;
const READ_BYTES: usize = 1 << 20;
/// Bits of a place that hold its offset; the bits above hold the basis number.
const OFFSET_BITS: u32 = 56;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkPlace {
    pub basis: usize,
    pub offset: u64,
}

#[derive(Debug)]
pub(super) struct Index {
    cut: Cut,
    places: Vec<(u64, u64)>,
    /// Mask of hash bits: hashes with any of them set are not indexed.
    left_out: u64,
}

impl Index {
    /// Reads all bases once and indexes them, cut as a content with this chunk size is.
    pub(super) fn of(bases: &[Basis], cut: Cut, chunk: ChunkSize) -> Index {
        Index::with_room(bases, (cut, chunk), MAX_FRAGMENTS)
    }

    pub(super) fn with_room(bases: &[Basis], (cut, chunk): (Cut, ChunkSize), most_fragments: usize) -> Index {
        let mut index = Index { cut, places: Vec::with_capacity(most_fragments + 1), left_out: 0 };
        for (number, basis) in bases.iter().enumerate() {
            let mut cutter = Cutter::new(cut, chunk);
            let mut found = |fragment: Fragment, _: &[u8]| index.add(number, &fragment, most_fragments);
            basis.read_through(READ_BYTES, |bytes| cutter.feed(bytes, &mut found));
            cutter.finish(&mut found);
        }
        index.places.sort_unstable();
        index.places.dedup_by_key(|(name, _)| *name);
        index
    }

    fn add(&mut self, basis: usize, fragment: &Fragment, most_fragments: usize) {
        let name = u64::from_be_bytes(fragment.name);
        if name & self.left_out != 0 {
            return;
        }
        self.places.push((name, (basis as u64) << OFFSET_BITS | fragment.offset));
        if self.places.len() > most_fragments {
            // Repeated chunks, of which images have many, are kept once.
            self.places.sort_unstable();
            self.places.dedup_by_key(|(name, _)| *name);
            while self.places.len() > most_fragments / 2 {
                self.left_out = self.left_out << 1 | 1;
                self.places.retain(|(name, _)| name & self.left_out == 0);
            }
        }
    }

    pub(super) fn cut(&self) -> Cut {
        self.cut
    }

    pub(super) fn is_partial(&self) -> bool {
        self.left_out != 0
    }

    pub(super) fn find(&self, name: [u8; 8]) -> Option<ChunkPlace> {
        let name = u64::from_be_bytes(name);
        let at = self.places.binary_search_by_key(&name, |(name, _)| *name).ok()?;
        let place = self.places[at].1;
        let basis = (place >> OFFSET_BITS) as usize;
        Some(ChunkPlace { basis, offset: place & ((1 << OFFSET_BITS) - 1) })
    }
}
