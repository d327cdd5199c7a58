//! Where stretches are, and what their chunks hash to.

use super::super::encoder::SpanBuffer;
use super::super::hash::{ChunkHash, is_ledger, value_in};
use super::super::layout::{CHUNK_BYTES, MOST_LEDGER_BYTES, SPAN_BYTES, SpanPlace};
use super::ChunkSet;
use super::fragments::{FRAGMENT_BYTES, Fragment};

/// Spans of a stretch; the last one of a content may have fewer.
pub(super) const STRETCH_SPANS: usize = 64;
/// Content bytes of a stretch, of which is asked at a time what anybody lacks.
pub const STRETCH_BYTES: u64 = (STRETCH_SPANS * SPAN_BYTES) as u64;
/// Chunks of a stretch.
pub const STRETCH_CHUNKS: usize = STRETCH_BYTES as usize / CHUNK_BYTES;
/// Chunks of a span.
pub(super) const SPAN_CHUNKS: usize = SPAN_BYTES / CHUNK_BYTES;

/// A stretch's place in a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StretchPlace {
    number: u64,
    content_bytes: u64,
}

impl StretchPlace {
    /// Stretch `number` of a content of so many bytes; none if there is no such.
    pub fn of(number: u64, content_bytes: u64) -> Option<StretchPlace> {
        (number < stretches(content_bytes)).then_some(StretchPlace { number, content_bytes })
    }

    /// Its number, from 0.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where it begins in the content.
    pub fn begin(&self) -> u64 {
        self.number * STRETCH_BYTES
    }

    /// Bytes of content in it.
    pub fn bytes(&self) -> u64 {
        (self.content_bytes - self.begin()).min(STRETCH_BYTES)
    }

    /// How many chunks it has.
    pub fn chunks(&self) -> usize {
        self.bytes().div_ceil(CHUNK_BYTES as u64) as usize
    }

    /// Its spans, in order.
    pub fn spans(&self) -> impl Iterator<Item = SpanPlace> + use<> {
        let (first, bytes) = (self.number * STRETCH_SPANS as u64, self.bytes());
        (0..bytes.div_ceil(SPAN_BYTES as u64)).map(move |at| {
            let rest = bytes - at * SPAN_BYTES as u64;
            SpanPlace::new(first + at, rest.min(SPAN_BYTES as u64) as usize)
        })
    }

    /// The span that has this chunk of the stretch, and the chunk's number there.
    pub fn span_of(&self, chunk: usize) -> (SpanPlace, usize) {
        let span = self.spans().nth(chunk / SPAN_CHUNKS).expect("the stretch has the chunk");
        (span, chunk % SPAN_CHUNKS)
    }

    /// Where a chunk begins in the content.
    pub fn chunk_offset(&self, chunk: usize) -> u64 {
        self.begin() + (chunk * CHUNK_BYTES) as u64
    }

    /// How long a chunk is.
    pub fn chunk_bytes(&self, chunk: usize) -> usize {
        (self.content_bytes - self.chunk_offset(chunk)).min(CHUNK_BYTES as u64) as usize
    }

    /// Bytes of all its ledgers.
    pub(super) fn ledger_bytes(&self) -> usize {
        self.spans().map(|span| span.ledger_bytes()).sum()
    }
}

/// How many stretches a content of so many bytes has.
pub fn stretches(content_bytes: u64) -> u64 {
    content_bytes.div_ceil(STRETCH_BYTES)
}

/// What the chunks of a stretch hash to, and perhaps the names of its fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StretchLedger {
    place: StretchPlace,
    /// The ledgers of its spans, one after the other.
    ledgers: Vec<u8>,
    fragments: Vec<Fragment>,
    /// Of the spans whose ledger is one.
    sound: ChunkSet,
}

impl StretchLedger {
    /// Of a stretch whose bytes are all here, with these fragments.
    ///
    /// # Panics
    /// If they are not as many as the place has.
    pub fn of(place: StretchPlace, content: &[u8], fragments: &[Fragment]) -> StretchLedger {
        assert_eq!(content.len() as u64, place.bytes(), "all of the stretch");
        let (mut bytes, mut rest) = (Vec::new(), content);
        for span in place.spans() {
            let mut buffer = SpanBuffer::empty(SpanBuffer::default());
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

    /// From its ledgers and, behind them, the fragments, as they stand in the stream; the first of them begins so
    /// many bytes before the stretch.
    ///
    /// # Panics
    /// If they are not as long as those of the place are.
    pub(super) fn read(place: StretchPlace, before: u64, bytes: &[u8]) -> StretchLedger {
        let (ledgers, fragments) = bytes.split_at(place.ledger_bytes());
        let mut sound = ChunkSet::default();
        for (at, (span, ledger)) in place.spans().zip(ledgers.chunks(MOST_LEDGER_BYTES)).enumerate() {
            if is_ledger(&span, ledger) {
                (0..span.chunks()).for_each(|chunk| sound.insert(at * SPAN_CHUNKS + chunk));
            }
        }
        let fragments =
            fragments.chunks_exact(FRAGMENT_BYTES).scan(place.begin().saturating_sub(before), Fragment::read).collect();
        StretchLedger { place, ledgers: ledgers.to_vec(), fragments, sound }
    }

    /// Where it is.
    pub fn place(&self) -> &StretchPlace {
        &self.place
    }

    /// Its number: its content begins at so many times 64 MiB.
    pub fn number(&self) -> u64 {
        self.place.number
    }

    /// How many chunks it has.
    pub fn chunks(&self) -> usize {
        self.place.chunks()
    }

    /// Where a chunk begins in the content.
    pub fn chunk_offset(&self, chunk: usize) -> u64 {
        self.place.chunk_offset(chunk)
    }

    /// How long a chunk is.
    pub fn chunk_bytes(&self, chunk: usize) -> usize {
        self.place.chunk_bytes(chunk)
    }

    /// A chunk's chaining value at its offset; nothing hashes to it if its ledger came damaged.
    pub fn value(&self, chunk: usize) -> &[u8; 32] {
        let value = value_in(self.ledger(chunk / SPAN_CHUNKS), chunk % SPAN_CHUNKS);
        value.try_into().expect("a value's length")
    }

    /// Whether these bytes are a chunk's.
    pub fn matches(&self, chunk: usize, bytes: &[u8]) -> bool {
        self.sound.contains(chunk)
            && bytes.len() == self.chunk_bytes(chunk)
            && ChunkHash::of(self.chunk_offset(chunk), bytes).value() == self.value(chunk)
    }

    /// Fragments of the content by name, in order of their offsets, if names were asked for: those that end in the
    /// stretch, or nearly. None is certain, only [`matches`](StretchLedger::matches) is.
    pub fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The ledger of a span of it.
    pub(super) fn ledger(&self, span: usize) -> &[u8] {
        let begin = span * MOST_LEDGER_BYTES;
        &self.ledgers[begin..self.ledgers.len().min(begin + MOST_LEDGER_BYTES)]
    }
}
