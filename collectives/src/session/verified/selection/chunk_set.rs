//! Bitmaps of the 64 KiB chunks that a receiver lacks, and their encoding.

/// Maximum number of chunks of a stretch.
pub const STRETCH_CHUNKS: usize = 1024;
const WORDS: usize = STRETCH_CHUNKS / 64;
const BITMAP: u8 = 0;
const RUNS: u8 = 1;

/// A set of chunks of one stretch, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkSet {
    words: [u64; WORDS],
}

impl ChunkSet {
    pub const MAX_BYTES: usize = 1 + STRETCH_CHUNKS / 8;

    /// Returns the set of the first `chunks` chunks.
    ///
    /// # Panics
    /// If a stretch cannot have that many.
    pub fn first(chunks: usize) -> ChunkSet {
        let mut set = ChunkSet::default();
        (0..chunks).for_each(|chunk| set.insert(chunk));
        set
    }

    /// Adds a chunk.
    ///
    /// # Panics
    /// If a stretch cannot have such a chunk.
    pub fn insert(&mut self, chunk: usize) {
        self.words[chunk / 64] |= 1 << (chunk % 64);
    }

    /// Removes a chunk.
    ///
    /// # Panics
    /// If a stretch cannot have such a chunk.
    pub fn remove(&mut self, chunk: usize) {
        self.words[chunk / 64] &= !(1 << (chunk % 64));
    }

    pub fn contains(&self, chunk: usize) -> bool {
        self.words
            .get(chunk / 64)
            .is_some_and(|word| word >> (chunk % 64) & 1 == 1)
    }

    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    pub fn is_empty(&self) -> bool {
        *self == ChunkSet::default()
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..STRETCH_CHUNKS).filter(|&chunk| self.contains(chunk))
    }

    #[must_use]
    pub fn or(&self, other: &ChunkSet) -> ChunkSet {
        self.with(other, |one, other| one | other)
    }

    #[must_use]
    pub fn and(&self, other: &ChunkSet) -> ChunkSet {
        self.with(other, |one, other| one & other)
    }

    #[must_use]
    pub fn without(&self, other: &ChunkSet) -> ChunkSet {
        self.with(other, |one, other| one & !other)
    }

    fn with(&self, other: &ChunkSet, each: impl Fn(u64, u64) -> u64) -> ChunkSet {
        let mut set = *self;
        set.words
            .iter_mut()
            .zip(other.words)
            .for_each(|(word, other)| *word = each(*word, other));
        set
    }

    /// Appends the set's encoding for a stretch of `chunks` chunks: as runs, or as a bitmap if that
    /// is shorter.
    pub fn write(&self, chunks: usize, out: &mut Vec<u8>) {
        let runs = self.runs(chunks);
        let bitmap_bytes = chunks.div_ceil(8);
        if runs.len() * 2 < bitmap_bytes {
            out.push(RUNS);
            runs.iter()
                .for_each(|run| out.extend_from_slice(&run.to_be_bytes()));
        } else {
            out.push(BITMAP);
            out.extend(
                self.words
                    .iter()
                    .flat_map(|word| word.to_le_bytes())
                    .take(bitmap_bytes),
            );
        }
    }

    /// Alternating lengths of runs outside and inside the set, starting outside; chunks after the
    /// last run are outside.
    fn runs(&self, chunks: usize) -> Vec<u16> {
        let (mut runs, mut begin, mut inside) = (Vec::new(), 0, false);
        for chunk in 0..=chunks {
            if chunk == chunks && !inside {
                break;
            }
            if chunk == chunks || self.contains(chunk) != inside {
                runs.push((chunk - begin) as u16);
                (begin, inside) = (chunk, !inside);
            }
        }
        runs
    }

    /// Decodes all of `bytes` as a set of a stretch of `chunks` chunks; `None` if it is malformed
    /// or contains other chunks.
    pub fn read(chunks: usize, bytes: &[u8]) -> Option<ChunkSet> {
        let (form, bytes) = bytes.split_first()?;
        let mut set = ChunkSet::default();
        match *form {
            BITMAP if bytes.len() == chunks.div_ceil(8) => {
                for (at, byte) in bytes.iter().enumerate() {
                    set.words[at / 8] |= u64::from(*byte) << (at % 8 * 8);
                }
            }
            RUNS if bytes.len() % 2 == 0 && bytes.len() < ChunkSet::MAX_BYTES => {
                let mut at = 0;
                for (number, run) in bytes.chunks_exact(2).enumerate() {
                    let end = at + usize::from(u16::from_be_bytes([run[0], run[1]]));
                    if end > chunks || (end == at && number > 0) {
                        return None;
                    }
                    (at..end)
                        .filter(|_| number % 2 == 1)
                        .for_each(|chunk| set.insert(chunk));
                    at = end;
                }
            }
            _ => return None,
        }
        (set.without(&ChunkSet::first(chunks)).is_empty()).then_some(set)
    }
}

impl FromIterator<usize> for ChunkSet {
    fn from_iter<I: IntoIterator<Item = usize>>(chunks: I) -> ChunkSet {
        let mut set = ChunkSet::default();
        chunks.into_iter().for_each(|chunk| set.insert(chunk));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_set_is_read_as_it_was_written_and_is_never_longer_than_a_bitmap(
            chunks in 1..=STRETCH_CHUNKS,
            runs in prop::collection::vec(1..200_usize, 0..40),
            shown in any::<bool>(),
        ) {
            let edges = runs.iter().scan(0, |at, run| { *at += run; Some(*at) });
            let (mut set, mut from, mut inside) = (ChunkSet::default(), 0, shown);
            for edge in edges {
                (from.min(chunks)..edge.min(chunks)).filter(|_| inside).for_each(|chunk| set.insert(chunk));
                (from, inside) = (edge, !inside);
            }
            let mut bytes = Vec::new();
            set.write(chunks, &mut bytes);
            prop_assert!(bytes.len() <= 1 + chunks.div_ceil(8) && bytes.len() <= ChunkSet::MAX_BYTES);
            prop_assert_eq!(ChunkSet::read(chunks, &bytes), Some(set));
        }

        #[test]
        fn any_set_that_is_read_has_only_chunks_of_its_stretch(
            chunks in 1..=STRETCH_CHUNKS, bytes in prop::collection::vec(any::<u8>(), 0..200), form in 0..3_u8,
        ) {
            let bytes = [&[form], &bytes[..]].concat();
            if let Some(set) = ChunkSet::read(chunks, &bytes) {
                prop_assert!(set.iter().all(|chunk| chunk < chunks));
            }
        }
    }

    #[test]
    fn the_usual_first_report_takes_few_bytes() {
        let written = |set: ChunkSet| {
            let mut bytes = Vec::new();
            set.write(STRETCH_CHUNKS, &mut bytes);
            bytes
        };
        assert_eq!(written(ChunkSet::default()), [RUNS]);
        assert_eq!(written(ChunkSet::first(STRETCH_CHUNKS)), [RUNS, 0, 0, 4, 0]);
        assert_eq!(written(ChunkSet::from_iter([7, 8])), [RUNS, 0, 7, 0, 2]);
        let every_second: ChunkSet = (0..STRETCH_CHUNKS).step_by(2).collect();
        assert_eq!(
            (written(every_second).len(), every_second.len()),
            (129, 512)
        );
    }
}
