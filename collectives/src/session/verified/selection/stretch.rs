//! Places of stretches, and the hashes of their chunks.

use super::super::encoder::SpanBuffer;
use super::super::hash::{ChunkHash, is_ledger, value_in};
use super::super::layout::{ChunkSize, SPAN_BYTES, SpanPlace};
use super::chunk_set::{ChunkSet, STRETCH_CHUNKS};
use super::fragments::{FRAGMENT_BYTES, Fragment};

/// Maximum content bytes of a stretch.
pub const MAX_STRETCH_BYTES: u64 = 64 << 20;

impl ChunkSize {
    /// Returns the content bytes of a stretch, the unit of want-bitmaps: at most [`STRETCH_CHUNKS`]
    /// chunks and 64 MiB. The last stretch of a content may be shorter.
    pub const fn stretch_bytes(self) -> u64 {
        let bytes = (STRETCH_CHUNKS * self.bytes()) as u64;
        if bytes < MAX_STRETCH_BYTES { bytes } else { MAX_STRETCH_BYTES }
    }
}

/// Place of a stretch in a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StretchPlace {
    chunk: ChunkSize,
    number: u64,
    content_bytes: u64,
}

impl StretchPlace {
    /// Returns stretch `number` of a content of `content_bytes` bytes with chunks of size `chunk`;
    /// `None` if there is no such stretch.
    pub fn of(chunk: ChunkSize, number: u64, content_bytes: u64) -> Option<StretchPlace> {
        (number < stretches(chunk, content_bytes)).then_some(StretchPlace { chunk, number, content_bytes })
    }

    /// Returns the size of its chunks.
    pub fn chunk_size(&self) -> ChunkSize {
        self.chunk
    }

    /// Returns its number, from 0.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns its start in the content.
    pub fn begin(&self) -> u64 {
        self.number * self.chunk.stretch_bytes()
    }

    /// Returns its content bytes.
    pub fn bytes(&self) -> u64 {
        (self.content_bytes - self.begin()).min(self.chunk.stretch_bytes())
    }

    /// Returns the number of its chunks.
    pub fn chunks(&self) -> usize {
        self.bytes().div_ceil(self.chunk.bytes() as u64) as usize
    }

    /// Returns its spans, in order.
    pub fn spans(&self) -> impl Iterator<Item = SpanPlace> + use<> {
        let (chunk, first, bytes) = (self.chunk, self.begin() / SPAN_BYTES as u64, self.bytes());
        (0..bytes.div_ceil(SPAN_BYTES as u64)).map(move |at| {
            let rest = bytes - at * SPAN_BYTES as u64;
            SpanPlace::new(chunk, first + at, rest.min(SPAN_BYTES as u64) as usize)
        })
    }

    /// Returns the span that contains this chunk of the stretch, and the chunk's number there.
    pub fn span_of(&self, chunk: usize) -> (SpanPlace, usize) {
        let span = self.spans().nth(chunk / self.chunk.in_span()).expect("the stretch has the chunk");
        (span, chunk % self.chunk.in_span())
    }

    /// Returns the start of a chunk in the content.
    pub fn chunk_offset(&self, chunk: usize) -> u64 {
        self.begin() + (chunk * self.chunk.bytes()) as u64
    }

    /// Returns the length of a chunk in bytes.
    pub fn chunk_bytes(&self, chunk: usize) -> usize {
        (self.content_bytes - self.chunk_offset(chunk)).min(self.chunk.bytes() as u64) as usize
    }

    pub(super) fn ledger_bytes(&self) -> usize {
        self.spans().map(|span| span.ledger_bytes()).sum()
    }
}

/// Returns the number of stretches of a content of `content_bytes` bytes with chunks of size
/// `chunk`.
pub fn stretches(chunk: ChunkSize, content_bytes: u64) -> u64 {
    content_bytes.div_ceil(chunk.stretch_bytes())
}

/// Hashes of the chunks of a stretch, and its fragments if they are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StretchLedger {
    place: StretchPlace,
    ledgers: Vec<u8>,
    fragments: Vec<Fragment>,
    /// Chunks of the spans whose hash list is valid.
    sound: ChunkSet,
}

impl StretchLedger {
    /// Computes the hashes of a stretch whose bytes are all here, with these fragments.
    ///
    /// # Panics
    /// If `content` does not have the length of the stretch.
    pub fn of(place: StretchPlace, content: &[u8], fragments: &[Fragment]) -> StretchLedger {
        assert_eq!(content.len() as u64, place.bytes(), "all of the stretch");
        let (mut bytes, mut rest) = (Vec::new(), content);
        for span in place.spans() {
            let mut buffer = SpanBuffer::empty(place.chunk, SpanBuffer::default());
            let part;
            (part, rest) = rest.split_at(span.content_bytes());
            buffer.room()[..part.len()].copy_from_slice(part);
            buffer.filled(part.len());
            buffer.seal(span.index());
            bytes.extend_from_slice(buffer.ledger());
        }
        let before = fragments.first().map_or(0, |first| place.begin().saturating_sub(first.offset));
        fragments.iter().for_each(|fragment| fragment.write(&mut bytes));
        StretchLedger::read(place, before, &bytes)
    }

    /// Decodes hash lists and the fragments behind them; the first fragment begins `before` bytes
    /// before the stretch.
    ///
    /// # Panics
    /// If `bytes` is shorter than the hash lists of the stretch.
    pub(super) fn read(place: StretchPlace, before: u64, bytes: &[u8]) -> StretchLedger {
        let (ledgers, fragments) = bytes.split_at(place.ledger_bytes());
        let mut sound = ChunkSet::default();
        for (at, (span, ledger)) in place.spans().zip(ledgers.chunks(place.chunk.most_ledger_bytes())).enumerate() {
            if is_ledger(&span, ledger) {
                (0..span.chunks()).for_each(|chunk| sound.insert(at * place.chunk.in_span() + chunk));
            }
        }
        let fragments =
            fragments.chunks_exact(FRAGMENT_BYTES).scan(place.begin().saturating_sub(before), Fragment::read).collect();
        StretchLedger { place, ledgers: ledgers.to_vec(), fragments, sound }
    }

    /// Returns the place of the stretch.
    pub fn place(&self) -> &StretchPlace {
        &self.place
    }

    /// Returns the number of the stretch.
    pub fn number(&self) -> u64 {
        self.place.number
    }

    /// Returns the number of its chunks.
    pub fn chunks(&self) -> usize {
        self.place.chunks()
    }

    /// Returns the start of a chunk in the content.
    pub fn chunk_offset(&self, chunk: usize) -> u64 {
        self.place.chunk_offset(chunk)
    }

    /// Returns the length of a chunk in bytes.
    pub fn chunk_bytes(&self, chunk: usize) -> usize {
        self.place.chunk_bytes(chunk)
    }

    /// Returns the chaining value of a chunk at its offset; no data matches it if its hash list
    /// came damaged.
    pub fn value(&self, chunk: usize) -> &[u8; 32] {
        let in_span = self.place.chunk.in_span();
        let value = value_in(self.ledger(chunk / in_span), chunk % in_span);
        value.try_into().expect("a value's length")
    }

    /// Whether `bytes` are those of a chunk.
    pub fn matches(&self, chunk: usize, bytes: &[u8]) -> bool {
        self.sound.contains(chunk)
            && bytes.len() == self.chunk_bytes(chunk)
            && ChunkHash::of(self.chunk_offset(chunk), bytes).value() == self.value(chunk)
    }

    /// Returns the fragments that end in the stretch or nearly, in order of their offsets, if
    /// fragments are cut. They are hints; only [`matches`](StretchLedger::matches) is certain.
    pub fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    pub(super) fn ledger(&self, span: usize) -> &[u8] {
        let most = self.place.chunk.most_ledger_bytes();
        let begin = span * most;
        &self.ledgers[begin..self.ledgers.len().min(begin + most)]
    }
}
