//! Reassembly of whole spans from pieces of any length.

use super::early;
use super::layout::ChunkSize;

/// Collects the bytes of a stream until a span with its hash list is complete.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    chunk: ChunkSize,
    span: Vec<u8>,
    shown: usize,
}

impl Spans {
    /// Bytes of the longest span, for which the memory given to [`begin`](Spans::begin) should have
    /// room.
    pub const MAX_BYTES: usize = ChunkSize::SHORTEST.whole_bytes();

    /// Creates a collector for a stream with chunks of size `chunk`.
    pub fn new(chunk: ChunkSize) -> Spans {
        Spans { chunk, ..Spans::default() }
    }

    /// Whether the next span is empty, so that it needs memory from [`begin`](Spans::begin).
    pub fn is_empty(&self) -> bool {
        self.span.is_empty()
    }

    /// Begins the next span in this memory.
    pub fn begin(&mut self, mut memory: Vec<u8>) {
        debug_assert!(self.is_empty());
        memory.clear();
        self.span = memory;
    }

    /// Takes the bytes that belong to this span and returns the rest.
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (own, rest) = bytes.split_at(bytes.len().min(self.chunk.whole_bytes() - self.span.len()));
        self.span.extend_from_slice(own);
        rest
    }

    /// Whether the span is complete.
    pub fn is_whole(&self) -> bool {
        self.span.len() == self.chunk.whole_bytes()
    }

    /// Returns the whole chunks of the span that were not returned yet, the first behind the hash
    /// list; empty if there are none.
    pub fn whole_chunks(&mut self) -> &[u8] {
        let ledger_bytes = early::place(self.chunk, 0, &self.span).map_or(usize::MAX, |place| place.ledger_bytes());
        let chunks = self.span.len().saturating_sub(ledger_bytes) / self.chunk.bytes();
        if chunks == 0 {
            return &[];
        }
        let end = ledger_bytes + chunks * self.chunk.bytes();
        &self.span[std::mem::replace(&mut self.shown, end)..end]
    }

    /// Ends the span, whole or the last of the stream, and returns it.
    pub fn end(&mut self) -> Vec<u8> {
        self.shown = 0;
        std::mem::take(&mut self.span)
    }
}
