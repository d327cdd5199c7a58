//! From a content to its ledgered form.

use super::Form;
use super::crew::{Crew, Hashing};
use super::hash::{ChunkHash, Merged, write_ledger};
use super::layout::{ChunkSize, SPAN_BYTES, SpanPlace};
use crate::session::Trailer;
use std::ops::Range;
use std::sync::Arc;

/// A span that is filled with content where it will be sent from: room for its ledger is kept before it.
#[derive(Clone, Debug, Default)]
pub struct SpanBuffer {
    chunk: ChunkSize,
    bytes: Vec<u8>,
    /// Where the ledger begins, once there is one.
    begin: Option<usize>,
    content_bytes: usize,
}

impl SpanBuffer {
    /// An empty one, whose chunks are so long, in the memory of one that was used, if there is one.
    pub fn empty(chunk: ChunkSize, used: SpanBuffer) -> SpanBuffer {
        // Of new memory only what is filled is touched.
        let fits = used.bytes.len() == chunk.whole_bytes();
        let bytes = if fits { used.bytes } else { vec![0; chunk.whole_bytes()] };
        SpanBuffer { chunk, bytes, begin: None, content_bytes: 0 }
    }

    /// Where the next content goes.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.chunk.most_ledger_bytes() + self.content_bytes..]
    }

    /// So many bytes of the room were filled.
    pub fn filled(&mut self, bytes: usize) {
        self.content_bytes += bytes;
        debug_assert!(self.content_bytes <= SPAN_BYTES);
    }

    /// Whether the span has all that it can have.
    pub fn is_full(&self) -> bool {
        self.content_bytes == SPAN_BYTES
    }

    /// Bytes of content in it.
    pub fn content_bytes(&self) -> usize {
        self.content_bytes
    }

    /// Writes the ledger before the content of span `index`; nothing if there is no content.
    pub fn seal(&mut self, index: u64) {
        self.seal_with(index, &Hashing::default(), |_| ());
    }

    fn seal_with(&mut self, index: u64, hashing: &Hashing, mut each: impl FnMut(&ChunkHash)) {
        if self.content_bytes == 0 {
            return;
        }
        let place = SpanPlace::new(self.chunk, index, self.content_bytes);
        let begin = self.chunk.most_ledger_bytes() - place.ledger_bytes();
        let span = &mut self.bytes[begin..];
        let chunks = hashing.hash_all(0..place.chunks(), |number| ChunkHash::in_span(&place, number, span));
        let chunks: Vec<ChunkHash> = chunks.collect();
        chunks.iter().for_each(&mut each);
        write_ledger(&place, &chunks, &mut span[..place.ledger_bytes()]);
        self.begin = Some(begin);
    }

    /// Appends what span `index`, which this is, has of a part of the stream.
    pub fn copy_part(&self, index: u64, part: &Range<u64>, to: &mut Vec<u8>) {
        let (begin, bytes) = (index * self.chunk.whole_bytes() as u64, self.as_bytes());
        let within = |at: u64| usize::try_from(at.saturating_sub(begin)).unwrap_or(usize::MAX).min(bytes.len());
        to.extend_from_slice(&bytes[within(part.start)..within(part.end)]);
    }

    /// The content that is in it.
    pub(super) fn content(&self) -> &[u8] {
        &self.bytes[self.chunk.most_ledger_bytes()..][..self.content_bytes]
    }

    /// The ledger, once it is sealed; empty before.
    pub(super) fn ledger(&self) -> &[u8] {
        self.begin.map_or(&[], |begin| &self.bytes[begin..self.chunk.most_ledger_bytes()])
    }

    /// Ledger and content, once it is sealed; empty before.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.chunk.most_ledger_bytes() + self.content_bytes;
        self.begin.map_or(&[], |begin| &self.bytes[begin..end])
    }
}

/// Seals the spans of a content one after the other, and says at last what they add up to.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    chunk: ChunkSize,
    spans: u64,
    content_bytes: u64,
    merged: Merged,
    hashing: Hashing,
}

impl Encoder {
    /// Of a content whose chunks are so long: those of its spans are.
    pub fn new(chunk: ChunkSize) -> Encoder {
        Encoder { chunk, ..Encoder::default() }
    }

    /// The same, whose spans' chunks this crew hashes.
    pub fn hashed_by(self, crew: Arc<dyn Crew>) -> Encoder {
        Encoder { hashing: Hashing::by(crew), ..self }
    }

    /// Seals the next span: a full one, unless it is the last.
    pub fn seal(&mut self, span: &mut SpanBuffer) {
        debug_assert_eq!(span.chunk, self.chunk, "all chunks of a content are of one size");
        span.seal_with(self.spans, &self.hashing, |chunk| self.merged.push(chunk));
        self.spans += 1;
        self.content_bytes += span.content_bytes as u64;
    }

    /// Bytes of content in all spans that were sealed.
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// What the end of the stream says: the bytes of the stream, the digest of the content.
    pub fn trailer(&self) -> Trailer {
        Trailer { bytes: Form::Ledgered(self.chunk).stream_bytes(self.content_bytes), digest: self.merged.digest() }
    }
}
