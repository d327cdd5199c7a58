//! Where everything is in the ledgered form.

use std::ops::Range;

/// Content bytes of a chunk where nothing else was chosen.
pub const CHUNK_BYTES: usize = 64 << 10;
/// Content bytes of a span, which has one ledger; the last one of a content may be shorter.
pub const SPAN_BYTES: usize = 1 << 20;
/// Bytes of a chunk's chaining value.
pub(super) const VALUE_BYTES: usize = 32;
/// What stands in a ledger before the values: the span's content bytes, and zero.
pub(super) const HEAD_BYTES: usize = 8;
/// What stands behind them.
pub(super) const SEAL_BYTES: usize = 16;

/// Content bytes of a chunk, the unit that is checked, sent again and looked for; the last one of a content may be
/// shorter. A power of two, which the sender chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSize {
    log2: u8,
}

impl Default for ChunkSize {
    fn default() -> ChunkSize {
        ChunkSize::DEFAULT
    }
}

impl ChunkSize {
    /// Where nothing else was chosen: 64 KiB, whose ledgers are 0.05 % of the content.
    pub const DEFAULT: ChunkSize = ChunkSize { log2: CHUNK_BYTES.trailing_zeros() as u8 };
    /// The shortest: its ledgers are 0.2 % of the content, and a span has as many as a word has bits.
    pub const SHORTEST: ChunkSize = ChunkSize { log2: 14 };
    /// The longest: what can be asked for again at once. Longer ones would save less than 0.03 %.
    pub const LONGEST: ChunkSize = ChunkSize { log2: 17 };

    /// Of so many bytes; none if chunks cannot be so long.
    pub fn of_bytes(bytes: u64) -> Option<ChunkSize> {
        bytes.is_power_of_two().then(|| ChunkSize::of_log2(bytes.trailing_zeros() as u8))?
    }

    /// Those that nothing else was chosen for, so often doubled (or halved); none if chunks cannot be so long.
    pub(in crate::session) fn of_doublings(doublings: i8) -> Option<ChunkSize> {
        ChunkSize::of_log2(u8::try_from((ChunkSize::DEFAULT.log2 as i8).checked_add(doublings)?).ok()?)
    }

    /// How often those that nothing else was chosen for are doubled to these.
    pub(in crate::session) fn doublings(self) -> i8 {
        self.log2 as i8 - ChunkSize::DEFAULT.log2 as i8
    }

    fn of_log2(log2: u8) -> Option<ChunkSize> {
        (ChunkSize::SHORTEST.log2..=ChunkSize::LONGEST.log2).contains(&log2).then_some(ChunkSize { log2 })
    }

    /// Its bytes.
    pub const fn bytes(self) -> usize {
        1 << self.log2
    }

    /// Chunks of a whole span.
    pub const fn in_span(self) -> usize {
        SPAN_BYTES >> self.log2
    }

    /// Bytes of the ledger of a span with so many bytes of content.
    const fn ledger_bytes(self, content_bytes: usize) -> usize {
        HEAD_BYTES + content_bytes.div_ceil(self.bytes()) * VALUE_BYTES + SEAL_BYTES
    }

    /// The longest ledger: that of a whole span.
    pub(super) const fn most_ledger_bytes(self) -> usize {
        self.ledger_bytes(SPAN_BYTES)
    }

    /// Bytes of a whole span and its ledger in the stream.
    pub const fn whole_bytes(self) -> usize {
        self.most_ledger_bytes() + SPAN_BYTES
    }
}

/// So many bytes, in words.
pub(in crate::session) fn amount(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) { format!("{} KiB", bytes / 1024) } else { format!("{bytes} bytes") }
}

/// Whether two parts of a stream have bytes in common.
pub(in crate::session) fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// How a stream carries its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// As it is.
    #[default]
    Plain,
    /// In spans, each behind its ledger, whose chunks are so long.
    Ledgered(ChunkSize),
}

impl Form {
    /// In spans, and nothing else was chosen.
    pub const LEDGERED: Form = Form::Ledgered(ChunkSize::DEFAULT);

    /// How long chunks are; what is carried as it is has none, and no use for it.
    pub fn chunk(self) -> ChunkSize {
        match self {
            Form::Plain => ChunkSize::DEFAULT,
            Form::Ledgered(chunk) => chunk,
        }
    }

    /// The same with chunks that are so long, if it has any.
    #[must_use]
    pub fn with_chunk(self, chunk: ChunkSize) -> Form {
        match self {
            Form::Plain => Form::Plain,
            Form::Ledgered(_) => Form::Ledgered(chunk),
        }
    }

    /// Bytes of the stream of a content of so many bytes; without end if that is.
    pub fn stream_bytes(self, content_bytes: u64) -> u64 {
        let Form::Ledgered(chunk) = self else { return content_bytes };
        let (spans, rest) = (content_bytes / SPAN_BYTES as u64, content_bytes as usize % SPAN_BYTES);
        let last = if rest > 0 { chunk.ledger_bytes(rest) + rest } else { 0 };
        spans.saturating_mul(chunk.whole_bytes() as u64).saturating_add(last as u64)
    }

    /// Bytes of content in the first so many bytes of a stream: exactly, if the stream ends there; in its midst it may
    /// be too many by less than a ledger.
    pub fn content_bytes(self, stream_bytes: u64) -> u64 {
        let Form::Ledgered(chunk) = self else { return stream_bytes };
        let whole = chunk.whole_bytes();
        let (spans, rest) = (stream_bytes / whole as u64, (stream_bytes % whole as u64) as usize);
        let Some(chunked) = rest.checked_sub(HEAD_BYTES + SEAL_BYTES) else { return spans * SPAN_BYTES as u64 };
        let chunks = chunked.div_ceil(chunk.bytes() + VALUE_BYTES);
        let least = chunks.saturating_sub(1) * chunk.bytes();
        spans * SPAN_BYTES as u64 + (chunked.saturating_sub(chunks * VALUE_BYTES)).max(least) as u64
    }

    /// Which bytes of the content a part of a stream carries, of which so many bytes are known; of a part of a ledger
    /// the bytes that it is of, and true.
    pub fn content_of(self, part: &Range<u64>, stream_bytes: u64) -> (Range<u64>, bool) {
        let place = match self {
            Form::Plain => None,
            Form::Ledgered(chunk) => SpanPlace::at(chunk, part.start, stream_bytes),
        };
        let Some(place) = place else { return (part.clone(), false) };
        let within = |at: u64| (at - place.begin()).saturating_sub(place.ledger_bytes() as u64);
        let (from, to) = (within(part.start), within(part.end).min(place.content_bytes() as u64));
        if to == 0 {
            return (place.content(), true);
        }
        (place.content_begin() + from..place.content_begin() + to, false)
    }
}

/// A span's place in content and stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanPlace {
    chunk: ChunkSize,
    index: u64,
    content_bytes: usize,
}

impl SpanPlace {
    /// Span `index` of a content, if it has so many bytes: a whole span's unless it is the last.
    pub fn new(chunk: ChunkSize, index: u64, content_bytes: usize) -> SpanPlace {
        debug_assert!(content_bytes <= SPAN_BYTES);
        SpanPlace { chunk, index, content_bytes }
    }

    /// Span `index`, if it and its ledger have so many bytes in the stream; none if no span can have so many.
    pub fn of_stream(chunk: ChunkSize, index: u64, stream_bytes: usize) -> Option<SpanPlace> {
        let content_bytes = if stream_bytes == chunk.whole_bytes() {
            SPAN_BYTES
        } else {
            usize::try_from(Form::Ledgered(chunk).content_bytes(stream_bytes as u64)).ok()?
        };
        let place = SpanPlace { chunk, index, content_bytes };
        (content_bytes > 0 && place.bytes() == stream_bytes).then_some(place)
    }

    /// The spans that a part of a stream touches, of a content of so many bytes.
    pub fn all_of(chunk: ChunkSize, part: &Range<u64>, content_bytes: u64) -> impl Iterator<Item = SpanPlace> + use<> {
        let whole = chunk.whole_bytes() as u64;
        let places = (part.start / whole..part.end.div_ceil(whole)).map(move |index| {
            let rest = content_bytes.saturating_sub(index.saturating_mul(SPAN_BYTES as u64));
            SpanPlace::new(chunk, index, rest.min(SPAN_BYTES as u64) as usize)
        });
        places.filter(|place| place.content_bytes > 0)
    }

    /// The span in which byte `at` of a stream of so many bytes is.
    pub fn at(chunk: ChunkSize, at: u64, stream_bytes: u64) -> Option<SpanPlace> {
        let whole = chunk.whole_bytes() as u64;
        let index = at / whole;
        let rest = stream_bytes.checked_sub(index * whole)?.min(whole);
        SpanPlace::of_stream(chunk, index, usize::try_from(rest).ok()?)
    }

    /// How long its chunks are.
    pub fn chunk_size(&self) -> ChunkSize {
        self.chunk
    }

    /// Its number, from 0.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Bytes of content in it.
    pub fn content_bytes(&self) -> usize {
        self.content_bytes
    }

    /// Where it begins in the content.
    pub fn content_begin(&self) -> u64 {
        self.index * SPAN_BYTES as u64
    }

    /// Its content.
    pub fn content(&self) -> Range<u64> {
        self.content_begin()..self.content_begin() + self.content_bytes as u64
    }

    /// Where its ledger begins in the stream.
    pub fn begin(&self) -> u64 {
        self.index * self.chunk.whole_bytes() as u64
    }

    /// Bytes of its ledger.
    pub fn ledger_bytes(&self) -> usize {
        self.chunk.ledger_bytes(self.content_bytes)
    }

    /// Its bytes in the stream, ledger and content.
    pub fn bytes(&self) -> usize {
        self.ledger_bytes() + self.content_bytes
    }

    /// Where the ledger is in the stream.
    pub fn ledger(&self) -> Range<u64> {
        self.begin()..self.begin() + self.ledger_bytes() as u64
    }

    /// Where a part of the content that is in it is in the stream.
    pub fn in_stream(&self, content: &Range<u64>) -> Range<u64> {
        let place = |at: u64| self.ledger().end + (at - self.content_begin());
        place(content.start)..place(content.end)
    }

    /// How many chunks it has.
    pub fn chunks(&self) -> usize {
        self.content_bytes.div_ceil(self.chunk.bytes())
    }

    /// Where one of its chunks is, from the beginning of its ledger.
    pub fn chunk(&self, number: usize) -> Range<usize> {
        let begin = number * self.chunk.bytes();
        let end = (begin + self.chunk.bytes()).min(self.content_bytes);
        self.ledger_bytes() + begin..self.ledger_bytes() + end
    }

    /// Where that chunk begins in the content.
    pub fn chunk_offset(&self, number: usize) -> u64 {
        self.content_begin() + (number * self.chunk.bytes()) as u64
    }
}
