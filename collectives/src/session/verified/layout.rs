//! Positions of data and hash lists in a stream with interleaved hashes.

pub(super) use crate::keys::{SEAL_BYTES, SIGNATURE_BYTES};
use std::ops::Range;
use std::str::FromStr;

/// Default chunk size, in content bytes.
pub const CHUNK_BYTES: usize = 64 << 10;
/// Content bytes of a span, which has one hash list; the last span of a content may be shorter.
pub const SPAN_BYTES: usize = 1 << 20;
pub(super) const VALUE_BYTES: usize = 32;
/// Bytes of a hash list before the hashes: content bytes of the span, then zero.
pub(super) const HEAD_BYTES: usize = 8;

/// Chunk size in content bytes, a power of two chosen by the sender. A chunk is the unit of
/// verification, repair and search; the last one of a content may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSize {
    log2: u8,
    /// Whether the sender signs the hash lists, which are longer by that.
    is_signed: bool,
}

impl FromStr for ChunkSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ChunkSize, String> {
        let bytes = ethbcast_planning::parse_size(text)?;
        ChunkSize::of_bytes(bytes).ok_or_else(|| {
            format!("chunks have 16K, 32K, 64K or 128K, not {bytes} bytes: give one of these")
        })
    }
}

impl Default for ChunkSize {
    fn default() -> ChunkSize {
        ChunkSize::DEFAULT
    }
}

impl ChunkSize {
    /// Default size: 64 KiB, with hash lists of 0.05 % of the content.
    pub const DEFAULT: ChunkSize = ChunkSize {
        log2: CHUNK_BYTES.trailing_zeros() as u8,
        is_signed: false,
    };
    /// Smallest size: the hash lists are 0.2 % of the content, and a span has 64 chunks, one per
    /// bit of a bitmap.
    pub const SHORTEST: ChunkSize = ChunkSize {
        log2: 14,
        is_signed: false,
    };
    /// Largest size: the longest range of a request. Larger ones would save less than 0.03 %.
    pub const LONGEST: ChunkSize = ChunkSize {
        log2: 17,
        is_signed: false,
    };

    /// Returns the size of `bytes` bytes; `None` if it is not allowed.
    pub fn of_bytes(bytes: u64) -> Option<ChunkSize> {
        bytes
            .is_power_of_two()
            .then(|| ChunkSize::of_log2(bytes.trailing_zeros() as u8))?
    }

    /// Returns the default size doubled `doublings` times, or halved if negative; `None` if it is
    /// not allowed.
    pub(in crate::session) fn of_doublings(doublings: i8) -> Option<ChunkSize> {
        ChunkSize::of_log2(
            u8::try_from((ChunkSize::DEFAULT.log2 as i8).checked_add(doublings)?).ok()?,
        )
    }

    pub(in crate::session) fn doublings(self) -> i8 {
        self.log2 as i8 - ChunkSize::DEFAULT.log2 as i8
    }

    fn of_log2(log2: u8) -> Option<ChunkSize> {
        (ChunkSize::SHORTEST.log2..=ChunkSize::LONGEST.log2)
            .contains(&log2)
            .then_some(ChunkSize {
                log2,
                is_signed: false,
            })
    }

    /// Returns this size in a session whose hash lists are signed, or are not.
    #[must_use]
    pub const fn signed(self, is_signed: bool) -> ChunkSize {
        ChunkSize { is_signed, ..self }
    }

    /// Returns the size in bytes.
    pub const fn bytes(self) -> usize {
        1 << self.log2
    }

    /// Returns the number of chunks of a whole span.
    pub const fn in_span(self) -> usize {
        SPAN_BYTES >> self.log2
    }

    const fn hash_list_bytes(self, content_bytes: usize) -> usize {
        self.least_hash_list_bytes() + content_bytes.div_ceil(self.bytes()) * VALUE_BYTES
    }

    const fn least_hash_list_bytes(self) -> usize {
        HEAD_BYTES + SEAL_BYTES + if self.is_signed { SIGNATURE_BYTES } else { 0 }
    }

    pub(super) const fn most_hash_list_bytes(self) -> usize {
        self.hash_list_bytes(SPAN_BYTES)
    }

    /// Returns the stream bytes of a whole span with its hash list.
    pub const fn whole_bytes(self) -> usize {
        self.most_hash_list_bytes() + SPAN_BYTES
    }
}

pub(in crate::session) fn amount(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) {
        format!("{} KiB", bytes / 1024)
    } else {
        format!("{bytes} bytes")
    }
}

/// Returns a size for people, such as `2.00 MiB`.
pub fn mebibytes(bytes: u64) -> String {
    if bytes < 1 << 20 {
        format!("{bytes} bytes")
    } else {
        format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20))
    }
}

/// Returns two different sizes for people: in bytes if their MiB would look the same.
pub fn sizes(one: u64, other: u64) -> [String; 2] {
    let words = [one, other].map(mebibytes);
    if words[0] == words[1] {
        [one, other].map(|bytes| format!("{bytes} bytes"))
    } else {
        words
    }
}

pub(in crate::session) fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Encoding of a content in the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The content alone.
    #[default]
    Plain,
    /// Verified stream: spans, each behind its hash list, with chunks of this size.
    Verified(ChunkSize),
}

impl Form {
    /// Verified stream with chunks of the default size.
    pub const VERIFIED: Form = Form::Verified(ChunkSize::DEFAULT);

    /// Returns the chunk size; the default for a plain stream, which has no chunks.
    pub fn chunk(self) -> ChunkSize {
        match self {
            Form::Plain => ChunkSize::DEFAULT,
            Form::Verified(chunk) => chunk,
        }
    }

    /// Returns this form with another chunk size; a plain stream has none.
    #[must_use]
    pub fn with_chunk(self, chunk: ChunkSize) -> Form {
        match self {
            Form::Plain => Form::Plain,
            Form::Verified(_) => Form::Verified(chunk),
        }
    }

    /// Returns this form in a session whose hash lists are signed, or are not.
    #[must_use]
    pub fn signed(self, is_signed: bool) -> Form {
        self.with_chunk(self.chunk().signed(is_signed))
    }

    /// Returns the stream bytes of a content of `content_bytes` bytes; saturates at `u64::MAX`.
    pub fn stream_bytes(self, content_bytes: u64) -> u64 {
        let Form::Verified(chunk) = self else {
            return content_bytes;
        };
        let (spans, rest) = (
            content_bytes / SPAN_BYTES as u64,
            content_bytes as usize % SPAN_BYTES,
        );
        let last = if rest > 0 {
            chunk.hash_list_bytes(rest) + rest
        } else {
            0
        };
        spans
            .saturating_mul(chunk.whole_bytes() as u64)
            .saturating_add(last as u64)
    }

    /// Returns the content bytes in the first `stream_bytes` bytes of a stream: exact if the stream
    /// ends there, else too many by less than a hash list.
    pub fn content_bytes(self, stream_bytes: u64) -> u64 {
        let Form::Verified(chunk) = self else {
            return stream_bytes;
        };
        let whole = chunk.whole_bytes();
        let (spans, rest) = (
            stream_bytes / whole as u64,
            (stream_bytes % whole as u64) as usize,
        );
        let Some(chunked) = rest.checked_sub(chunk.least_hash_list_bytes()) else {
            return spans * SPAN_BYTES as u64;
        };
        let chunks = chunked.div_ceil(chunk.bytes() + VALUE_BYTES);
        let least = chunks.saturating_sub(1) * chunk.bytes();
        spans * SPAN_BYTES as u64 + (chunked.saturating_sub(chunks * VALUE_BYTES)).max(least) as u64
    }

    /// Returns the content range that a part of a stream of `stream_bytes` bytes carries, and
    /// whether the part is of a hash list. The range is then the one that the list covers.
    pub fn content_of(self, part: &Range<u64>, stream_bytes: u64) -> (Range<u64>, bool) {
        let place = match self {
            Form::Plain => None,
            Form::Verified(chunk) => SpanPlace::at(chunk, part.start, stream_bytes),
        };
        let Some(place) = place else {
            return (part.clone(), false);
        };
        let within = |at: u64| (at - place.begin()).saturating_sub(place.hash_list_bytes() as u64);
        let (from, to) = (
            within(part.start),
            within(part.end).min(place.content_bytes() as u64),
        );
        if to == 0 {
            return (place.content(), true);
        }
        (
            place.content_begin() + from..place.content_begin() + to,
            false,
        )
    }
}

/// Place of a span in content and stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanPlace {
    chunk: ChunkSize,
    index: u64,
    content_bytes: usize,
}

impl SpanPlace {
    /// Returns the place of span `index`, which has `content_bytes` bytes: a whole span's unless it
    /// is the last.
    pub fn new(chunk: ChunkSize, index: u64, content_bytes: usize) -> SpanPlace {
        debug_assert!(content_bytes <= SPAN_BYTES);
        SpanPlace {
            chunk,
            index,
            content_bytes,
        }
    }

    /// Returns the place of span `index`, which has `stream_bytes` bytes with its hash list; `None`
    /// if no span has that many.
    pub fn of_stream(chunk: ChunkSize, index: u64, stream_bytes: usize) -> Option<SpanPlace> {
        let content_bytes = if stream_bytes == chunk.whole_bytes() {
            SPAN_BYTES
        } else {
            usize::try_from(Form::Verified(chunk).content_bytes(stream_bytes as u64)).ok()?
        };
        let place = SpanPlace {
            chunk,
            index,
            content_bytes,
        };
        (content_bytes > 0 && place.bytes() == stream_bytes).then_some(place)
    }

    /// Returns the spans that a part of a stream touches, for a content of `content_bytes` bytes.
    pub fn all_of(
        chunk: ChunkSize,
        part: &Range<u64>,
        content_bytes: u64,
    ) -> impl Iterator<Item = SpanPlace> + use<> {
        let whole = chunk.whole_bytes() as u64;
        let places = (part.start / whole..part.end.div_ceil(whole)).map(move |index| {
            let rest = content_bytes.saturating_sub(index.saturating_mul(SPAN_BYTES as u64));
            SpanPlace::new(chunk, index, rest.min(SPAN_BYTES as u64) as usize)
        });
        places.filter(|place| place.content_bytes > 0)
    }

    /// Returns the span that contains byte `at` of a stream of `stream_bytes` bytes.
    pub fn at(chunk: ChunkSize, at: u64, stream_bytes: u64) -> Option<SpanPlace> {
        let whole = chunk.whole_bytes() as u64;
        let index = at / whole;
        let rest = stream_bytes.checked_sub(index * whole)?.min(whole);
        SpanPlace::of_stream(chunk, index, usize::try_from(rest).ok()?)
    }

    pub fn chunk_size(&self) -> ChunkSize {
        self.chunk
    }

    pub fn index(&self) -> u64 {
        self.index
    }

    pub fn content_bytes(&self) -> usize {
        self.content_bytes
    }

    pub fn content_begin(&self) -> u64 {
        self.index * SPAN_BYTES as u64
    }

    pub fn content(&self) -> Range<u64> {
        self.content_begin()..self.content_begin() + self.content_bytes as u64
    }

    /// Returns the start of its hash list in the stream.
    pub fn begin(&self) -> u64 {
        self.index * self.chunk.whole_bytes() as u64
    }

    pub fn hash_list_bytes(&self) -> usize {
        self.chunk.hash_list_bytes(self.content_bytes)
    }

    /// Returns the bytes of the fields and values of its hash list, which the seal follows.
    pub(super) fn list_bytes(&self) -> usize {
        HEAD_BYTES + self.chunks() * VALUE_BYTES
    }

    /// Returns its stream bytes, hash list and content.
    pub fn bytes(&self) -> usize {
        self.hash_list_bytes() + self.content_bytes
    }

    pub fn hash_list(&self) -> Range<u64> {
        self.begin()..self.begin() + self.hash_list_bytes() as u64
    }

    pub fn in_stream(&self, content: &Range<u64>) -> Range<u64> {
        let place = |at: u64| self.hash_list().end + (at - self.content_begin());
        place(content.start)..place(content.end)
    }

    pub fn chunks(&self) -> usize {
        self.content_bytes.div_ceil(self.chunk.bytes())
    }

    /// Returns the range of a chunk, from the start of the hash list.
    pub fn chunk(&self, number: usize) -> Range<usize> {
        let begin = number * self.chunk.bytes();
        let end = (begin + self.chunk.bytes()).min(self.content_bytes);
        self.hash_list_bytes() + begin..self.hash_list_bytes() + end
    }

    pub fn chunk_offset(&self, number: usize) -> u64 {
        self.content_begin() + (number * self.chunk.bytes()) as u64
    }
}
