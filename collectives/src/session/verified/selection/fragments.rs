//! Fragments: blocks identified by hash, so that a receiver finds them at another offset, where
//! chaining values differ.

use crate::session::verified::ChunkSize;
use fastcdc::v2020::FastCDC;

pub(super) const FRAGMENT_BYTES: usize = 12;
/// Minimum, mean and maximum length of a content-defined fragment, in bytes.
const CONTENT_DEFINED_BYTES: [u32; 3] = [4 << 10, 16 << 10, 64 << 10];

/// A block of the content, identified by the hash of its bytes wherever they are. The name is a
/// hint: a block found by it is verified against its chunk's chaining value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Start in the content.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// First 8 bytes of its BLAKE3 digest.
    pub name: [u8; 8],
}

impl Fragment {
    /// Returns the fragment of `bytes`, which begin at `offset`.
    pub fn of(offset: u64, bytes: &[u8]) -> Fragment {
        Fragment { offset, bytes: bytes.len() as u32, name: name(bytes) }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes.to_be_bytes());
        out.extend_from_slice(&self.name);
    }

    pub(super) fn read(offset: &mut u64, bytes: &[u8]) -> Option<Fragment> {
        let (length, name) = bytes.split_first_chunk()?;
        let fragment = Fragment { offset: *offset, bytes: u32::from_be_bytes(*length), name: name.try_into().ok()? };
        *offset = offset.checked_add(u64::from(fragment.bytes))?;
        Some(fragment)
    }
}

/// Returns the name of a block of bytes.
pub fn name(bytes: &[u8]) -> [u8; 8] {
    *blake3::hash(bytes).as_bytes().first_chunk().expect("a digest is longer")
}

/// Method of cutting fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cut {
    /// No fragments: data is found only at its own offset.
    #[default]
    None,
    /// One fragment per chunk: finds data moved by whole chunks, as in images.
    Fixed,
    /// Content-defined chunking (FastCDC; Xia et al. 2020): finds data moved by any number of
    /// bytes.
    ContentDefined,
}

/// Cuts a content that comes in parts of any length into fragments.
#[derive(Clone, Debug)]
pub struct Cutter {
    cut: Cut,
    chunk: ChunkSize,
    offset: u64,
    open: Vec<u8>,
}

impl Cutter {
    /// Creates a cutter at the start of a content with chunks of size `chunk`.
    pub fn new(cut: Cut, chunk: ChunkSize) -> Cutter {
        Cutter { cut, chunk, offset: 0, open: Vec::new() }
    }

    /// Takes the next bytes, and calls `found` with each fragment that they complete, and its
    /// bytes.
    pub fn feed(&mut self, bytes: &[u8], mut found: impl FnMut(Fragment, &[u8])) {
        if self.cut != Cut::None {
            self.open.extend_from_slice(bytes);
            // A fragment that ends nearer than this to the last byte might end elsewhere with more
            // bytes behind it.
            let longest = if self.cut == Cut::Fixed { self.chunk.bytes() } else { CONTENT_DEFINED_BYTES[2] as usize };
            self.cut_while(longest, &mut found);
        }
    }

    /// Ends the content.
    pub fn finish(&mut self, mut found: impl FnMut(Fragment, &[u8])) {
        self.cut_while(1, &mut found);
    }

    fn cut_while(&mut self, least: usize, found: &mut impl FnMut(Fragment, &[u8])) {
        let mut begin = 0;
        let [shortest, mean, longest] = CONTENT_DEFINED_BYTES;
        while self.open.len() - begin >= least {
            let rest = &self.open[begin..];
            let end = match self.cut {
                Cut::ContentDefined => FastCDC::new(rest, shortest, mean, longest).cut(0, rest.len()).1,
                Cut::Fixed | Cut::None => rest.len().min(self.chunk.bytes()),
            };
            found(Fragment::of(self.offset, &rest[..end]), &rest[..end]);
            (begin, self.offset) = (begin + end, self.offset + end as u64);
        }
        self.open.drain(..begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn noise(bytes: usize) -> Vec<u8> {
        let mut content = vec![0; bytes];
        blake3::Hasher::new().update(&bytes.to_be_bytes()).finalize_xof().fill(&mut content);
        content
    }

    fn fragments(cut: Cut, content: &[u8], part: usize) -> Vec<Fragment> {
        let (mut cutter, mut fragments) = (Cutter::new(cut, ChunkSize::DEFAULT), Vec::new());
        content.chunks(part).for_each(|part| cutter.feed(part, |fragment, _| fragments.push(fragment)));
        cutter.finish(|fragment, _| fragments.push(fragment));
        fragments
    }

    #[test]
    fn pieces_are_the_same_in_whatever_parts_the_content_comes_and_all_of_it() {
        let content = noise(1_000_003);
        for cut in [Cut::Fixed, Cut::ContentDefined] {
            let whole = fragments(cut, &content, content.len());
            assert_eq!(whole, fragments(cut, &content, 10_007), "{cut:?}");
            let mut at = 0;
            for fragment in &whole {
                assert_eq!(
                    (fragment.offset, fragment.name),
                    (at, name(&content[at as usize..][..fragment.bytes as usize]))
                );
                at += u64::from(fragment.bytes);
            }
            assert_eq!(at, 1_000_003);
        }
        assert!(fragments(Cut::None, &content, 1000).is_empty() && fragments(Cut::ContentDefined, &[], 1).is_empty());
    }

    #[test]
    fn what_was_moved_by_some_bytes_keeps_the_names_of_nearly_all_its_fragments() {
        let content = noise(4_000_000);
        let moved = [&content[..1_000_000], b"seventeen bytes  ", &content[1_000_000..]].concat();
        let names = |content: &[u8]| -> BTreeSet<[u8; 8]> {
            fragments(Cut::ContentDefined, content, 65_536).iter().map(|fragment| fragment.name).collect()
        };
        let (before, after) = (names(&content), names(&moved));
        let new = after.difference(&before).count();
        assert!(before.len() > 100 && (1..=3).contains(&new), "{new} new ones of {}", after.len());
    }
}
