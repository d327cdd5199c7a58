//! Division of a content into stretches of 64 MiB, for which receivers report what they lack.

use super::chunk_set::{ChunkSet, STRETCH_CHUNKS};
use crate::keys::ContentCipher;
use crate::session::message::ContentKind;
use crate::session::verified::encoder::SpanBuffer;
use crate::session::verified::hash::{ChunkHash, open_hash_list, value_in};
use crate::session::verified::layout::{ChunkSize, SPAN_BYTES, SpanPlace};
#[cfg(feature = "delta")]
use fastcdc::v2020::FastCDC;

pub const MAX_STRETCH_BYTES: u64 = 64 << 20;

impl ChunkSize {
    /// Returns the content bytes of a stretch, the unit of want-bitmaps: at most [`STRETCH_CHUNKS`]
    /// chunks and 64 MiB. The last stretch of a content may be shorter.
    pub const fn stretch_bytes(self) -> u64 {
        let bytes = (STRETCH_CHUNKS * self.bytes()) as u64;
        if bytes < MAX_STRETCH_BYTES {
            bytes
        } else {
            MAX_STRETCH_BYTES
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StretchPlace {
    chunk: ChunkSize,
    number: u64,
    content_bytes: u64,
}

impl StretchPlace {
    pub fn of(chunk: ChunkSize, number: u64, content_bytes: u64) -> Option<StretchPlace> {
        (number < stretches(chunk, content_bytes)).then_some(StretchPlace {
            chunk,
            number,
            content_bytes,
        })
    }

    pub fn chunk_size(&self) -> ChunkSize {
        self.chunk
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn begin(&self) -> u64 {
        self.number * self.chunk.stretch_bytes()
    }

    pub fn bytes(&self) -> u64 {
        (self.content_bytes - self.begin()).min(self.chunk.stretch_bytes())
    }

    pub fn chunks(&self) -> usize {
        self.bytes().div_ceil(self.chunk.bytes() as u64) as usize
    }

    pub fn spans(&self) -> impl Iterator<Item = SpanPlace> + use<> {
        let (chunk, first, bytes) = (self.chunk, self.begin() / SPAN_BYTES as u64, self.bytes());
        (0..bytes.div_ceil(SPAN_BYTES as u64)).map(move |at| {
            let rest = bytes - at * SPAN_BYTES as u64;
            SpanPlace::new(chunk, first + at, rest.min(SPAN_BYTES as u64) as usize)
        })
    }

    /// Returns the span that contains this chunk of the stretch, and the chunk's number there.
    pub fn span_of(&self, chunk: usize) -> (SpanPlace, usize) {
        let span = self
            .spans()
            .nth(chunk / self.chunk.in_span())
            .expect("the stretch has the chunk");
        (span, chunk % self.chunk.in_span())
    }

    pub fn chunk_offset(&self, chunk: usize) -> u64 {
        self.begin() + (chunk * self.chunk.bytes()) as u64
    }

    pub fn chunk_bytes(&self, chunk: usize) -> usize {
        (self.content_bytes - self.chunk_offset(chunk)).min(self.chunk.bytes() as u64) as usize
    }

    pub(super) fn hash_list_bytes(&self) -> usize {
        self.spans().map(|span| span.hash_list_bytes()).sum()
    }
}

pub fn stretches(chunk: ChunkSize, content_bytes: u64) -> u64 {
    content_bytes.div_ceil(chunk.stretch_bytes())
}

/// Hashes of the chunks of a stretch, and its fragments if they are cut. The hash lists are also
/// kept as they came if they are masked; `sound` are the chunks of the spans whose hash list is
/// valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StretchHashes {
    place: StretchPlace,
    hash_lists: Vec<u8>,
    masked: Vec<u8>,
    fragments: Vec<Fragment>,
    sound: ChunkSet,
}

impl StretchHashes {
    /// Computes the hashes of a stretch whose bytes are all here, with these fragments.
    ///
    /// # Panics
    /// If `content` does not have the length of the stretch.
    pub fn of(place: StretchPlace, content: &[u8], fragments: &[Fragment]) -> StretchHashes {
        assert_eq!(content.len() as u64, place.bytes(), "all of the stretch");
        let (mut bytes, mut rest) = (Vec::new(), content);
        for span in place.spans() {
            let mut buffer = SpanBuffer::empty(place.chunk, SpanBuffer::default());
            let part;
            (part, rest) = rest.split_at(span.content_bytes());
            buffer.room()[..part.len()].copy_from_slice(part);
            buffer.filled(part.len());
            buffer.seal(span.index());
            bytes.extend_from_slice(buffer.hash_list());
        }
        let before = fragments
            .first()
            .map_or(0, |first| place.begin().saturating_sub(first.offset));
        fragments
            .iter()
            .for_each(|fragment| fragment.write(&mut bytes));
        StretchHashes::read(place, before, &bytes, &ContentCipher::default())
    }

    /// Decodes hash lists and the fragments behind them; the first fragment begins `before` bytes
    /// before the stretch. Panics if `bytes` is shorter than the hash lists of the stretch.
    pub(super) fn read(
        place: StretchPlace,
        before: u64,
        bytes: &[u8],
        cipher: &ContentCipher,
    ) -> StretchHashes {
        let (masked, fragments) = bytes.split_at(place.hash_list_bytes());
        let (mut hash_lists, mut fragments) = (masked.to_vec(), fragments.to_vec());
        cipher.fragment_mask(masked, place.number, &mut fragments);
        let mut sound = ChunkSet::default();
        let each = hash_lists.chunks_mut(place.chunk.most_hash_list_bytes());
        for (at, (span, hash_list)) in place.spans().zip(each).enumerate() {
            if open_hash_list(&span, hash_list, cipher) {
                (0..span.chunks())
                    .for_each(|chunk| sound.insert(at * place.chunk.in_span() + chunk));
            }
        }
        let fragments = fragments
            .chunks_exact(FRAGMENT_BYTES)
            .scan(place.begin().saturating_sub(before), Fragment::read)
            .collect();
        let masked = if cipher.is_none() {
            Vec::new()
        } else {
            masked.to_vec()
        };
        StretchHashes {
            place,
            hash_lists,
            masked,
            fragments,
            sound,
        }
    }

    pub fn place(&self) -> &StretchPlace {
        &self.place
    }

    pub fn number(&self) -> u64 {
        self.place.number
    }

    pub fn chunks(&self) -> usize {
        self.place.chunks()
    }

    pub fn chunk_offset(&self, chunk: usize) -> u64 {
        self.place.chunk_offset(chunk)
    }

    pub fn chunk_bytes(&self, chunk: usize) -> usize {
        self.place.chunk_bytes(chunk)
    }

    /// Returns the chaining value of a chunk at its offset; no data matches it if its hash list
    /// came damaged.
    pub fn value(&self, chunk: usize) -> &[u8; 32] {
        let in_span = self.place.chunk.in_span();
        value_in(
            self.part(&self.hash_lists, chunk / in_span),
            chunk % in_span,
        )
    }

    pub fn matches(&self, chunk: usize, bytes: &[u8]) -> bool {
        self.sound.contains(chunk)
            && bytes.len() == self.chunk_bytes(chunk)
            && ChunkHash::of(self.chunk_offset(chunk), bytes).value() == self.value(chunk)
    }

    /// Returns the fragments that end in the stretch or shortly after it, in order of their
    /// offsets, if fragments are cut. They are hints; only [`matches`](StretchHashes::matches) is
    /// certain.
    pub fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    pub(super) fn hash_list(&self, span: usize) -> &[u8] {
        self.part(
            if self.masked.is_empty() {
                &self.hash_lists
            } else {
                &self.masked
            },
            span,
        )
    }

    fn part<'a>(&self, hash_lists: &'a [u8], span: usize) -> &'a [u8] {
        let most = self.place.chunk.most_hash_list_bytes();
        let begin = span * most;
        &hash_lists[begin..hash_lists.len().min(begin + most)]
    }
}

pub(super) const FRAGMENT_BYTES: usize = 12;
/// Minimum, mean and maximum length of a content-defined fragment, in bytes.
const CONTENT_DEFINED_BYTES: [u32; 3] = [4 << 10, 16 << 10, 64 << 10];

/// A block of the content, which its name identifies at any offset: the first 8 bytes of its BLAKE3
/// digest. The name is a hint: a block found by it is verified against its chunk's chaining value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    pub offset: u64,
    pub bytes: u32,
    pub name: [u8; 8],
}

impl Fragment {
    pub fn of(offset: u64, bytes: &[u8]) -> Fragment {
        Fragment {
            offset,
            bytes: bytes.len() as u32,
            name: name(bytes),
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes.to_be_bytes());
        out.extend_from_slice(&self.name);
    }

    pub(super) fn read(offset: &mut u64, bytes: &[u8]) -> Option<Fragment> {
        let (length, name) = bytes.split_first_chunk()?;
        let fragment = Fragment {
            offset: *offset,
            bytes: u32::from_be_bytes(*length),
            name: name.try_into().ok()?,
        };
        *offset = offset.checked_add(u64::from(fragment.bytes))?;
        Some(fragment)
    }
}

pub fn name(bytes: &[u8]) -> [u8; 8] {
    *blake3::hash(bytes)
        .as_bytes()
        .first_chunk()
        .expect("a digest is longer")
}

/// Method of cutting fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cut {
    /// Fragments are not cut: data is found only at its own offset.
    #[default]
    None,
    /// One fragment per chunk: finds data moved by whole chunks, as in images.
    Fixed,
    /// Content-defined chunking (FastCDC; Xia et al. 2020): finds data moved by any number of
    /// bytes. Without the feature `delta`, fragments of one length.
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
    pub fn new(cut: Cut, chunk: ChunkSize) -> Cutter {
        Cutter {
            cut,
            chunk,
            offset: 0,
            open: Vec::new(),
        }
    }

    /// Takes the next bytes, and calls `found` with each fragment that they complete, and its
    /// bytes.
    pub fn feed(&mut self, bytes: &[u8], mut found: impl FnMut(Fragment, &[u8])) {
        if self.cut != Cut::None {
            self.open.extend_from_slice(bytes);
            // With more bytes behind it, a fragment that ends nearer than this to the last byte
            // might end elsewhere.
            let longest = if self.cut == Cut::Fixed {
                self.chunk.bytes()
            } else {
                CONTENT_DEFINED_BYTES[2] as usize
            };
            self.cut_while(longest, &mut found);
        }
    }

    pub fn finish(&mut self, mut found: impl FnMut(Fragment, &[u8])) {
        self.cut_while(1, &mut found);
    }

    fn cut_while(&mut self, least: usize, found: &mut impl FnMut(Fragment, &[u8])) {
        let mut begin = 0;
        while self.open.len() - begin >= least {
            let rest = &self.open[begin..];
            let end = match self.cut {
                Cut::ContentDefined => content_defined(rest),
                Cut::Fixed | Cut::None => rest.len().min(self.chunk.bytes()),
            };
            found(Fragment::of(self.offset, &rest[..end]), &rest[..end]);
            (begin, self.offset) = (begin + end, self.offset + end as u64);
        }
        self.open.drain(..begin);
    }
}

/// Description of the content, with its name at the sender, for a receiver that may hold part of
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldContent {
    pub source: String,
    pub size: u64,
    pub content: ContentKind,
    pub chunk: ChunkSize,
}

/// Place at which a chunk was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Its own place, so that it need not be written.
    InPlace,
    Elsewhere,
}

/// Content that a receiver already holds: part of it from an interrupted run, or a similar file (a
/// basis). Two threads use it at once.
pub trait HaveSet: std::fmt::Debug + Send + Sync {
    /// Begins the session. Data that cannot be part of this content is not used.
    fn begin(&self, _offer: &HeldContent) {}

    /// Returns the chunks of a stretch that this host holds, by the hashes of their present bytes.
    /// May block on the disk.
    fn have(&self, hash_list: &StretchHashes) -> ChunkSet;

    /// Reads a chunk of a stretch that [`have`](HaveSet::have) has returned; `to` has its length.
    /// `None` if it has changed since. The bytes are verified again.
    fn read(&self, stretch: u64, chunk: usize, to: &mut [u8]) -> Option<Origin>;

    /// Forgets all stretches below `stretch`, which are all in place.
    fn forget_below(&self, _stretch: u64) {}
}

#[cfg(feature = "delta")]
fn content_defined(rest: &[u8]) -> usize {
    let [shortest, mean, longest] = CONTENT_DEFINED_BYTES;
    FastCDC::new(rest, shortest, mean, longest)
        .cut(0, rest.len())
        .1
}

#[cfg(not(feature = "delta"))]
fn content_defined(rest: &[u8]) -> usize {
    rest.len().min(CONTENT_DEFINED_BYTES[1] as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn noise(bytes: usize) -> Vec<u8> {
        let mut content = vec![0; bytes];
        blake3::Hasher::new()
            .update(&bytes.to_be_bytes())
            .finalize_xof()
            .fill(&mut content);
        content
    }

    fn fragments(cut: Cut, content: &[u8], part: usize) -> Vec<Fragment> {
        let (mut cutter, mut fragments) = (Cutter::new(cut, ChunkSize::DEFAULT), Vec::new());
        content
            .chunks(part)
            .for_each(|part| cutter.feed(part, |fragment, _| fragments.push(fragment)));
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
        assert!(
            fragments(Cut::None, &content, 1000).is_empty()
                && fragments(Cut::ContentDefined, &[], 1).is_empty()
        );
    }

    #[test]
    fn data_moved_by_some_bytes_keeps_nearly_all_its_content_defined_chunks() {
        let content = noise(4_000_000);
        let moved = [
            &content[..1_000_000],
            b"seventeen bytes  ",
            &content[1_000_000..],
        ]
        .concat();
        let names = |content: &[u8]| -> BTreeSet<[u8; 8]> {
            fragments(Cut::ContentDefined, content, 65_536)
                .iter()
                .map(|fragment| fragment.name)
                .collect()
        };
        let (before, after) = (names(&content), names(&moved));
        let new = after.difference(&before).count();
        assert!(
            before.len() > 100 && (1..=3).contains(&new),
            "{new} new ones of {}",
            after.len()
        );
    }
}
