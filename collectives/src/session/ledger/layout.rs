//! Where everything is in the ledgered form.

use std::ops::Range;

/// Content bytes of a chunk, the unit that is checked and sent again; the last one of a content may be shorter.
pub const CHUNK_BYTES: usize = 64 << 10;
/// Content bytes of a span, which has one ledger; the last one of a content may be shorter.
pub const SPAN_BYTES: usize = 1 << 20;
/// Bytes of a chunk's chaining value.
pub(super) const VALUE_BYTES: usize = 32;
/// What stands in a ledger before the values: the span's content bytes, and zero.
pub(super) const HEAD_BYTES: usize = 8;
/// What stands behind them.
pub(super) const SEAL_BYTES: usize = 16;
/// The longest ledger: that of a whole span.
pub(super) const MOST_LEDGER_BYTES: usize = ledger_bytes(SPAN_BYTES);
/// Bytes of a whole span and its ledger in the stream.
pub(super) const WHOLE_BYTES: usize = MOST_LEDGER_BYTES + SPAN_BYTES;

/// Bytes of the ledger of a span with so many bytes of content.
const fn ledger_bytes(content_bytes: usize) -> usize {
    HEAD_BYTES + content_bytes.div_ceil(CHUNK_BYTES) * VALUE_BYTES + SEAL_BYTES
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
    /// In spans, each behind its ledger.
    Ledgered,
}

impl Form {
    /// Bytes of the stream of a content of so many bytes; without end if that is.
    pub fn stream_bytes(self, content_bytes: u64) -> u64 {
        if self == Form::Plain {
            return content_bytes;
        }
        let (spans, rest) = (content_bytes / SPAN_BYTES as u64, content_bytes as usize % SPAN_BYTES);
        let last = if rest > 0 { ledger_bytes(rest) + rest } else { 0 };
        spans.saturating_mul(WHOLE_BYTES as u64).saturating_add(last as u64)
    }

    /// Bytes of content in the first so many bytes of a stream: exactly, if the stream ends there; in its midst it may
    /// be too many by less than a ledger.
    pub fn content_bytes(self, stream_bytes: u64) -> u64 {
        if self == Form::Plain {
            return stream_bytes;
        }
        let (spans, rest) = (stream_bytes / WHOLE_BYTES as u64, stream_bytes as usize % WHOLE_BYTES);
        let Some(chunked) = rest.checked_sub(HEAD_BYTES + SEAL_BYTES) else { return spans * SPAN_BYTES as u64 };
        let chunks = chunked.div_ceil(CHUNK_BYTES + VALUE_BYTES);
        let least = chunks.saturating_sub(1) * CHUNK_BYTES;
        spans * SPAN_BYTES as u64 + (chunked.saturating_sub(chunks * VALUE_BYTES)).max(least) as u64
    }

    /// Which bytes of the content a part of a stream carries, of which so many bytes are known; of a part of a ledger
    /// the bytes that it is of, and true.
    pub fn content_of(self, part: &Range<u64>, stream_bytes: u64) -> (Range<u64>, bool) {
        let place = SpanPlace::at(part.start, stream_bytes).filter(|_| self == Form::Ledgered);
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
    index: u64,
    content_bytes: usize,
}

impl SpanPlace {
    /// Span `index` of a content, if it has so many bytes: a whole span's unless it is the last.
    pub fn new(index: u64, content_bytes: usize) -> SpanPlace {
        debug_assert!(content_bytes <= SPAN_BYTES);
        SpanPlace { index, content_bytes }
    }

    /// Span `index`, if it and its ledger have so many bytes in the stream; none if no span can have so many.
    pub fn of_stream(index: u64, stream_bytes: usize) -> Option<SpanPlace> {
        let content_bytes = match stream_bytes {
            WHOLE_BYTES => SPAN_BYTES,
            _ => usize::try_from(Form::Ledgered.content_bytes(stream_bytes as u64)).ok()?,
        };
        let place = SpanPlace { index, content_bytes };
        (content_bytes > 0 && place.bytes() == stream_bytes).then_some(place)
    }

    /// The spans that a part of a stream touches, of a content of so many bytes.
    pub fn all_of(part: &Range<u64>, content_bytes: u64) -> impl Iterator<Item = SpanPlace> + use<> {
        let places = (part.start / WHOLE_BYTES as u64..part.end.div_ceil(WHOLE_BYTES as u64)).map(move |index| {
            let rest = content_bytes.saturating_sub(index.saturating_mul(SPAN_BYTES as u64));
            SpanPlace::new(index, rest.min(SPAN_BYTES as u64) as usize)
        });
        places.filter(|place| place.content_bytes > 0)
    }

    /// The span in which byte `at` of a stream of so many bytes is.
    pub fn at(at: u64, stream_bytes: u64) -> Option<SpanPlace> {
        let index = at / WHOLE_BYTES as u64;
        let rest = stream_bytes.checked_sub(index * WHOLE_BYTES as u64)?.min(WHOLE_BYTES as u64);
        SpanPlace::of_stream(index, usize::try_from(rest).ok()?)
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
        self.index * WHOLE_BYTES as u64
    }

    /// Bytes of its ledger.
    pub fn ledger_bytes(&self) -> usize {
        ledger_bytes(self.content_bytes)
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
        self.content_bytes.div_ceil(CHUNK_BYTES)
    }

    /// Where one of its chunks is, from the beginning of its ledger.
    pub fn chunk(&self, number: usize) -> Range<usize> {
        let begin = number * CHUNK_BYTES;
        let end = (begin + CHUNK_BYTES).min(self.content_bytes);
        self.ledger_bytes() + begin..self.ledger_bytes() + end
    }

    /// Where that chunk begins in the content.
    pub fn chunk_offset(&self, number: usize) -> u64 {
        self.content_begin() + (number * CHUNK_BYTES) as u64
    }
}
