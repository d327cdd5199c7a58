//! What comes in any pieces, in whole spans.

use super::early;
use super::layout::ChunkSize;

/// Collects the bytes of a stream until a span and its ledger are whole.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    chunk: ChunkSize,
    span: Vec<u8>,
    /// Bytes of it that were shown before it was whole.
    shown: usize,
}

impl Spans {
    /// Bytes of the longest span, which the memory given to [`begin`](Spans::begin) should have room for.
    pub const MOST_BYTES: usize = ChunkSize::SHORTEST.whole_bytes();

    /// Of a stream whose chunks are so long.
    pub fn new(chunk: ChunkSize) -> Spans {
        Spans { chunk, ..Spans::default() }
    }

    /// Whether nothing of the next span is there: it begins in memory of its own.
    pub fn is_empty(&self) -> bool {
        self.span.is_empty()
    }

    /// The next span goes into this memory.
    pub fn begin(&mut self, mut memory: Vec<u8>) {
        debug_assert!(self.is_empty());
        memory.clear();
        self.span = memory;
    }

    /// Takes what belongs to this span and returns the rest.
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (own, rest) = bytes.split_at(bytes.len().min(self.chunk.whole_bytes() - self.span.len()));
        self.span.extend_from_slice(own);
        rest
    }

    /// Whether the span is whole.
    pub fn is_whole(&self) -> bool {
        self.span.len() == self.chunk.whole_bytes()
    }

    /// What has come of the span in whole chunks, the first behind its ledger, and was not shown yet; empty if there
    /// is none.
    pub fn whole_chunks(&mut self) -> &[u8] {
        let ledger_bytes = early::place(self.chunk, 0, &self.span).map_or(usize::MAX, |place| place.ledger_bytes());
        let chunks = self.span.len().saturating_sub(ledger_bytes) / self.chunk.bytes();
        if chunks == 0 {
            return &[];
        }
        let end = ledger_bytes + chunks * self.chunk.bytes();
        &self.span[std::mem::replace(&mut self.shown, end)..end]
    }

    /// The span as it is: whole, or the last of the stream.
    pub fn end(&mut self) -> Vec<u8> {
        self.shown = 0;
        std::mem::take(&mut self.span)
    }
}
