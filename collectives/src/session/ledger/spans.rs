//! What comes in any pieces, in whole spans.

use super::layout::WHOLE_BYTES;

/// Collects the bytes of a stream until a span and its ledger are whole.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    span: Vec<u8>,
}

impl Spans {
    /// Bytes of the longest span, which the memory given to [`begin`](Spans::begin) should have room for.
    pub const MOST_BYTES: usize = WHOLE_BYTES;

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
        let (own, rest) = bytes.split_at(bytes.len().min(WHOLE_BYTES - self.span.len()));
        self.span.extend_from_slice(own);
        rest
    }

    /// Whether the span is whole.
    pub fn is_whole(&self) -> bool {
        self.span.len() == WHOLE_BYTES
    }

    /// The span as it is: whole, or the last of the stream.
    pub fn end(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.span)
    }
}
