//! Order and positions of hash lists and chunks in the bytes that a delta transfer sends.

use super::super::layout::{SEAL_BYTES, overlap};
use super::chunk_set::ChunkSet;
use super::stretch::{FRAGMENT_BYTES, StretchPlace};
use crate::keys::ContentCipher;
use crate::session::verified::layout::{ChunkSize, Form};
use std::ops::Range;

/// Number of stretches by which hash lists precede chunks: want-bitmaps of the next stretches are
/// collected while this one is sent.
pub(super) const AHEAD: u64 = 4;
/// Maximum number of stretches whose hash lists a receiver holds.
pub(in crate::session) const MAX_AHEAD: u64 = 8;
/// Bytes of a section's head: its kind, two lengths and a seal over them.
pub(super) const HEAD_BYTES: usize = 8 + SEAL_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// Hash lists of the next stretch, then fragments; the first of these begins `before` bytes
    /// before the stretch.
    HashLists {
        before: u16,
        fragments: u32,
    },
    Chunks {
        set_bytes: u16,
    },
    /// Padding, which completes a frame so that the bytes before it are sent.
    Padding {
        bytes: u32,
    },
    Passed,
}

impl Head {
    const HASH_LISTS: u8 = 1;
    const CHUNKS: u8 = 2;
    const PADDING: u8 = 3;
    const PASSED: u8 = 4;

    fn write(self) -> [u8; 8] {
        let (kind, short, long) = match self {
            Head::HashLists { before, fragments } => (Head::HASH_LISTS, before, fragments),
            Head::Chunks { set_bytes } => (Head::CHUNKS, set_bytes, 0),
            Head::Padding { bytes } => (Head::PADDING, 0, bytes),
            Head::Passed => (Head::PASSED, 0, 0),
        };
        let mut bytes = [kind, 0, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&short.to_be_bytes());
        bytes[4..].copy_from_slice(&long.to_be_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Head> {
        let (kind, rest) = bytes.split_first_chunk::<2>()?;
        let (short, long) = rest.split_first_chunk::<2>()?;
        let (short, long) = (
            u16::from_be_bytes(*short),
            u32::from_be_bytes(*long.first_chunk()?),
        );
        match kind {
            [Head::HASH_LISTS, 0] if long as usize <= MAX_FRAGMENTS => Some(Head::HashLists {
                before: short,
                fragments: long,
            }),
            [Head::CHUNKS, 0] if long == 0 && usize::from(short) <= ChunkSet::MAX_BYTES => {
                Some(Head::Chunks { set_bytes: short })
            }
            [Head::PADDING, 0] if short == 0 && long <= MAX_PADDING_BYTES => {
                Some(Head::Padding { bytes: long })
            }
            [Head::PASSED, 0] if (short, long) == (0, 0) => Some(Head::Passed),
            _ => None,
        }
    }

    pub(super) fn seal(
        head: &[u8],
        set: &[u8],
        stretch: u64,
        cipher: &ContentCipher,
    ) -> [u8; SEAL_BYTES] {
        if let Some(seal) = cipher.section_seal(&head[..8], set, stretch) {
            return seal;
        }
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(&head[..8])
            .update(set)
            .update(&stretch.to_be_bytes());
        *hasher
            .finalize()
            .as_bytes()
            .first_chunk()
            .expect("a digest is longer than a seal")
    }
}

/// Maximum length of padding in bytes; a frame is shorter.
const MAX_PADDING_BYTES: u32 = 1 << 17;

/// Maximum number of fragments of a stretch, at 4 KiB each.
const MAX_FRAGMENTS: usize = super::MAX_STRETCH_BYTES as usize / 4096 + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueSection {
    HashLists(StretchPlace),
    Chunks(StretchPlace),
    End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SectionPart {
    Bytes(Vec<u8>),
    /// The bytes of this range of the verified stream of the whole content.
    Whole(Range<u64>),
    /// A number of bytes of fragment names, which are not kept: if re-created, they are zeros.
    Names(u64),
}

impl SectionPart {
    fn bytes(&self) -> u64 {
        match self {
            SectionPart::Bytes(bytes) => bytes.len() as u64,
            SectionPart::Whole(range) => range.end - range.start,
            SectionPart::Names(bytes) => *bytes,
        }
    }

    fn part(&self, part: Range<u64>) -> SectionPart {
        match self {
            SectionPart::Bytes(bytes) => {
                SectionPart::Bytes(bytes[part.start as usize..part.end as usize].to_vec())
            }
            SectionPart::Whole(range) => {
                SectionPart::Whole(range.start + part.start..range.start + part.end)
            }
            SectionPart::Names(_) => SectionPart::Names(part.end - part.start),
        }
    }
}

#[derive(Clone, Debug)]
struct Section {
    begin: u64,
    place: StretchPlace,
    what: SectionKind,
}

#[derive(Clone, Debug)]
enum SectionKind {
    HashLists { before: u16, fragments: u32 },
    Chunks(Box<ChunkSet>),
    Padding(u32),
    Passed,
}

impl Section {
    fn parts(&self, cipher: &ContentCipher) -> Vec<SectionPart> {
        let stretch = self.place.number();
        let sealed = |head: &[u8; 8]| [&head[..], &Head::seal(head, &[], stretch, cipher)].concat();
        match &self.what {
            SectionKind::HashLists { before, fragments } => {
                let head = sealed(
                    &Head::HashLists {
                        before: *before,
                        fragments: *fragments,
                    }
                    .write(),
                );
                let hash_lists = self
                    .place
                    .spans()
                    .map(|span| SectionPart::Whole(span.hash_list()));
                let names = SectionPart::Names(u64::from(*fragments) * FRAGMENT_BYTES as u64);
                std::iter::once(SectionPart::Bytes(head))
                    .chain(hash_lists)
                    .chain([names])
                    .collect()
            }
            SectionKind::Passed => {
                vec![SectionPart::Bytes(sealed(&Head::Passed.write()))]
            }
            SectionKind::Padding(bytes) => {
                let head = sealed(&Head::Padding { bytes: *bytes }.write());
                vec![SectionPart::Bytes(
                    [head, vec![0; *bytes as usize]].concat(),
                )]
            }
            SectionKind::Chunks(chunks) => {
                let mut set = Vec::new();
                chunks.write(self.place.chunks(), &mut set);
                let head = Head::Chunks {
                    set_bytes: set.len() as u16,
                }
                .write();
                let seal = Head::seal(&head, &set, stretch, cipher);
                cipher.section_mask(&seal, stretch, &mut set);
                let head = [&head[..], &seal, &set].concat();
                let chunks = chunks
                    .iter()
                    .map(|chunk| SectionPart::Whole(chunk_in_stream(&self.place, chunk)));
                std::iter::once(SectionPart::Bytes(head))
                    .chain(chunks)
                    .collect()
            }
        }
    }
}

fn chunk_in_stream(place: &StretchPlace, chunk: usize) -> Range<u64> {
    let begin = place.chunk_offset(chunk);
    place
        .span_of(chunk)
        .0
        .in_stream(&(begin..begin + place.chunk_bytes(chunk) as u64))
}

#[derive(Clone, Debug)]
pub struct Sections {
    chunk: ChunkSize,
    content_bytes: u64,
    cipher: ContentCipher,
    list: Vec<Section>,
    end: u64,
    hash_lists: u64,
    chunks: u64,
}

impl Sections {
    pub fn new(chunk: ChunkSize, content_bytes: u64) -> Sections {
        let (cipher, list) = (ContentCipher::default(), Vec::new());
        Sections {
            chunk,
            content_bytes,
            cipher,
            list,
            end: 0,
            hash_lists: 0,
            chunks: 0,
        }
    }

    pub(super) fn set_cipher(&mut self, cipher: ContentCipher) {
        self.cipher = cipher;
    }

    /// Returns the next section: hash lists as far ahead as allowed, then the chunks of the first
    /// stretch without them.
    pub fn due(&self) -> DueSection {
        let place = |number| StretchPlace::of(self.chunk, number, self.content_bytes);
        let hash_lists = place(self.hash_lists).filter(|_| self.hash_lists < self.chunks + AHEAD);
        let chunks = || place(self.chunks);
        hash_lists
            .map(DueSection::HashLists)
            .or_else(|| chunks().map(DueSection::Chunks))
            .unwrap_or(DueSection::End)
    }

    /// Adds the hash lists that are due, with `fragments` fragments of which the first begins
    /// `before` bytes before the stretch. Returns the section's parts.
    ///
    /// # Panics
    /// If hash lists are not due.
    pub fn add_hash_lists(&mut self, before: u16, fragments: u32) -> Vec<SectionPart> {
        let DueSection::HashLists(place) = self.due() else {
            panic!("hash lists are not due")
        };
        self.hash_lists += 1;
        self.add(place, SectionKind::HashLists { before, fragments })
    }

    /// Adds the chunks that are due. Returns the section's parts.
    ///
    /// # Panics
    /// If chunks are not due.
    pub fn add_chunks(&mut self, chunks: ChunkSet) -> Vec<SectionPart> {
        let DueSection::Chunks(place) = self.due() else {
            panic!("chunks are not due")
        };
        self.chunks += 1;
        self.add(place, SectionKind::Chunks(Box::new(chunks)))
    }

    /// Adds a section that skips the stretch that is due. Returns its bytes.
    ///
    /// # Panics
    /// If chunks are not due.
    pub fn pass(&mut self) -> Vec<SectionPart> {
        let DueSection::Chunks(place) = self.due() else {
            panic!("chunks are not due")
        };
        self.chunks += 1;
        self.add(place, SectionKind::Passed)
    }

    /// Adds padding that completes the frame of `frame_bytes` bytes with the last byte of the
    /// stream and begins the next one, so that all before it is sent at once. Empty if that was
    /// done already, or no choice is pending.
    pub fn pad(&mut self, frame_bytes: u64) -> Vec<SectionPart> {
        let is_padded = matches!(
            self.list.last(),
            None | Some(Section {
                what: SectionKind::Padding(_),
                ..
            })
        );
        let DueSection::Chunks(place) = self.due() else {
            return Vec::new();
        };
        if is_padded {
            return Vec::new();
        }
        let least = self.end + HEAD_BYTES as u64;
        let bytes = (least.next_multiple_of(frame_bytes) + 1 - least) as u32;
        self.add(place, SectionKind::Padding(bytes))
    }

    fn add(&mut self, place: StretchPlace, what: SectionKind) -> Vec<SectionPart> {
        let section = Section {
            begin: self.end,
            place,
            what,
        };
        let parts = section.parts(&self.cipher);
        self.end += parts.iter().map(SectionPart::bytes).sum::<u64>();
        self.list.push(section);
        parts
    }

    /// Returns the number of stretches whose hash lists have been made.
    pub fn hash_lists(&self) -> u64 {
        self.hash_lists
    }

    pub fn stream_bytes(&self) -> u64 {
        self.end
    }

    /// Returns the bytes of the content that the first `stream` bytes complete, including those
    /// that were not sent.
    pub fn covered(&self, stream: u64) -> u64 {
        let stream = stream.min(self.end);
        let first_behind = self.list.partition_point(|section| section.begin < stream);
        let end_of = |at: usize| self.list.get(at + 1).map_or(self.end, |next| next.begin);
        for (at, section) in self.list[..first_behind].iter().enumerate().rev() {
            if matches!(section.what, SectionKind::Chunks(_) | SectionKind::Passed) {
                let (came, all) = (
                    stream.min(end_of(at)) - section.begin,
                    end_of(at) - section.begin,
                );
                let part =
                    u128::from(section.place.bytes()) * u128::from(came) / u128::from(all.max(1));
                return section.place.begin() + part as u64;
            }
        }
        0
    }

    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Returns the bytes of the verified stream of the whole content.
    pub fn whole_bytes(&self) -> u64 {
        Form::Verified(self.chunk).stream_bytes(self.content_bytes)
    }

    /// Returns the parts that make up a range of the stream; empty if some of it has not been made.
    pub fn parts_of(&self, range: &Range<u64>) -> Vec<SectionPart> {
        let mut found = Vec::new();
        if range.end > self.end {
            return found;
        }
        let first = self
            .list
            .partition_point(|section| section.begin <= range.start)
            .saturating_sub(1);
        for section in self.list[first..]
            .iter()
            .take_while(|section| section.begin < range.end)
        {
            let mut at = section.begin;
            for part in section.parts(&self.cipher) {
                let here = at..at + part.bytes();
                if overlap(&here, range) {
                    let (from, to) = (range.start.max(here.start), range.end.min(here.end));
                    found.push(part.part(from - here.start..to - here.start));
                }
                at = here.end;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_of_which_nothing_is_sent_is_covered_as_one_that_is_sent() {
        let stretch = ChunkSize::DEFAULT.stretch_bytes();
        let mut sections = Sections::new(ChunkSize::DEFAULT, 2 * stretch + 7);
        while matches!(sections.due(), DueSection::HashLists(_)) {
            sections.add_hash_lists(0, 0);
        }
        assert_eq!(sections.covered(u64::MAX), 0, "hash lists are no content");
        sections.add_chunks(ChunkSet::default());
        assert_eq!(
            sections.covered(sections.stream_bytes()),
            stretch,
            "all of it was there"
        );
        let begin = sections.stream_bytes();
        sections.add_chunks((0..8).collect());
        let half = (begin + sections.stream_bytes()) / 2;
        let off = sections.covered(half).abs_diff(stretch + stretch / 2);
        assert!(
            off < stretch / 1000,
            "half of what is sent of it has come: {off}"
        );
        sections.add_chunks(ChunkSet::default());
        assert_eq!(
            (sections.covered(u64::MAX), sections.covered(0)),
            (2 * stretch + 7, 0)
        );
    }
}
