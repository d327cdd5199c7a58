//! Where the fragments of the bases are, by their names.

use super::basis::Basis;
use ethbcast_collectives::session::ledger::{ChunkSize, Cut, Cutter, Fragment};

/// So many fragments are known: 16 MiB. Of more, every second is, every fourth, and so on; those between are tried
/// where their neighbours were found.
const MOST_FRAGMENTS: usize = 1 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;
/// The part of a place that is its offset; before it stands the number of the basis.
const OFFSET_BITS: u32 = 56;

/// A place in a basis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Which basis.
    pub basis: usize,
    /// Where in it.
    pub offset: u64,
}

/// The names of fragments, and where each was seen first.
#[derive(Debug)]
pub(super) struct Index {
    cut: Cut,
    /// Sorted by name.
    places: Vec<(u64, u64)>,
    /// Names with any of these bits are not known.
    left_out: u64,
}

impl Index {
    /// Of all bases, which are read once, for a content whose chunks are so long.
    pub(super) fn of(bases: &[Basis], cut: Cut, chunk: ChunkSize) -> Index {
        Index::with_room(bases, (cut, chunk), MOST_FRAGMENTS)
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
            // What an image has most of, the same fragment again and again, is known once.
            self.places.sort_unstable();
            self.places.dedup_by_key(|(name, _)| *name);
            while self.places.len() > most_fragments / 2 {
                self.left_out = self.left_out << 1 | 1;
                self.places.retain(|(name, _)| name & self.left_out == 0);
            }
        }
    }

    /// How its fragments were cut.
    pub(super) fn cut(&self) -> Cut {
        self.cut
    }

    /// Whether there may be fragments that it does not know.
    pub(super) fn is_partial(&self) -> bool {
        self.left_out != 0
    }

    /// Where a fragment of that name was.
    pub(super) fn find(&self, name: [u8; 8]) -> Option<Place> {
        let name = u64::from_be_bytes(name);
        let at = self.places.binary_search_by_key(&name, |(name, _)| *name).ok()?;
        let place = self.places[at].1;
        let basis = (place >> OFFSET_BITS) as usize;
        Some(Place { basis, offset: place & ((1 << OFFSET_BITS) - 1) })
    }
}
