//! Where stretches are, and what their chunks hash to.

use super::super::encoder::SpanBuffer;
use super::super::hash::{ChunkHash, is_ledger, value_in};
use super::super::layout::{ChunkSize, SPAN_BYTES, SpanPlace};
use super::chunk_set::{ChunkSet, STRETCH_CHUNKS};
use super::fragments::{FRAGMENT_BYTES, Fragment};

/// Content bytes of the longest stretch.
pub const MOST_STRETCH_BYTES: u64 = 64 << 20;

impl ChunkSize {
    /// Content bytes of a stretch, of which is asked at a time what anybody lacks: as many as its chunks can be
    /// numbered, and no more than 64 MiB. The last one of a content may be shorter.
    pub const fn stretch_bytes(self) -> u64 {
        let bytes = (STRETCH_CHUNKS * self.bytes()) as u64;
        if bytes < MOST_STRETCH_BYTES { bytes } else { MOST_STRETCH_BYTES }
    }
}

/// A stretch's place in a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StretchPlace {
    chunk: ChunkSize,
    number: u64,
    content_bytes: u64,
}

impl StretchPlace {
    /// Stretch `number` of a content of so many bytes, whose chunks are so long; none if there is no such.
    pub fn of(chunk: ChunkSize, number: u64, content_bytes: u64) -> Option<StretchPlace> {
        (number < stretches(chunk, content_bytes)).then_some(StretchPlace { chunk, number, content_bytes })
    }

    /// How long its chunks are.
    pub fn chunk_size(&self) -> ChunkSize {
        self.chunk
    }

    /// Its number, from 0.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where it begins in the content.
    pub fn begin(&self) -> u64 {
        self.number * self.chunk.stretch_bytes()
    }

    /// Bytes of content in it.
    pub fn bytes(&self) -> u64 {
        (self.content_bytes - self.begin()).min(self.chunk.stretch_bytes())
    }

    /// How many chunks it has.
    pub fn chunks(&self) -> usize {
        self.bytes().div_ceil(self.chunk.bytes() as u64) as usize
    }

    /// Its spans, in order.
    pub fn spans(&self) -> impl Iterator<Item = SpanPlace> + use<> {
        let (chunk, first, bytes) = (self.chunk, self.begin() / SPAN_BYTES as u64, self.bytes());
        (0..bytes.div_ceil(SPAN_BYTES as u64)).map(move |at| {
            let rest = bytes - at * SPAN_BYTES as u64;
            SpanPlace::new(chunk, first + at, rest.min(SPAN_BYTES as u64) as usize)
        })
    }

    /// The span that has this chunk of the stretch, and the chunk's number there.
    pub fn span_of(&self, chunk: usize) -> (SpanPlace, usize) {
        let span = self.spans().nth(chunk / self.chunk.in_span()).expect("the stretch has the chunk");
        (span, chunk % self.chunk.in_span())
    }

    /// Where a chunk begins in the content.
    pub fn chunk_offset(&self, chunk: usize) -> u64 {
        self.begin() + (chunk * self.chunk.bytes()) as u64
    }

    /// How long a chunk is.
    pub fn chunk_bytes(&self, chunk: usize) -> usize {
        (self.content_bytes - self.chunk_offset(chunk)).min(self.chunk.bytes() as u64) as usize
    }

    /// Bytes of all its ledgers.
    pub(super) fn ledger_bytes(&self) -> usize {
        self.spans().map(|span| span.ledger_bytes()).sum()
    }
}

/// How many stretches a content of so many bytes has, whose chunks are so long.
pub fn stretches(chunk: ChunkSize, content_bytes: u64) -> u64 {
    content_bytes.div_ceil(chunk.stretch_bytes())
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

    /// From its ledgers and, behind them, the fragments, as they stand in the stream; the first of them begins so
    /// many bytes before the stretch.
    ///
    /// # Panics
    /// If they are not as long as those of the place are.
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

    /// Where it is.
    pub fn place(&self) -> &StretchPlace {
        &self.place
    }

    /// Its number.
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
        let in_span = self.place.chunk.in_span();
        let value = value_in(self.ledger(chunk / in_span), chunk % in_span);
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
        let most = self.place.chunk.most_ledger_bytes();
        let begin = span * most;
        &self.ledgers[begin..self.ledgers.len().min(begin + most)]
    }
}
