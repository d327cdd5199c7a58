//! The last spans sent, kept for repair: the bytes of a pipe may be nowhere else.

use super::encoder::SpanBuffer;
use std::collections::VecDeque;
use std::ops::Range;

/// Number of spans kept beside the one being sent: 4 MiB in all.
const SPANS: usize = 3;

/// The last spans that have been sent.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    spans: VecDeque<SpanBuffer>,
    sent: u64,
}

impl Recent {
    /// Keeps the next span. Returns the one it replaces, if any.
    pub fn keep(&mut self, span: SpanBuffer) -> Option<SpanBuffer> {
        self.sent += 1;
        self.spans.push_back(span);
        if self.spans.len() > SPANS { self.spans.pop_front() } else { None }
    }

    /// Copies a part of the stream to `to`, if it is in these spans and the `present` one, which
    /// follows them. Returns whether it is.
    pub fn copy_part(&self, present: &SpanBuffer, part: &Range<u64>, to: &mut Vec<u8>) -> bool {
        to.clear();
        let first = self.sent - self.spans.len() as u64;
        let spans = self.spans.iter().chain([present]);
        (first..).zip(spans).for_each(|(index, span)| span.copy_part(index, part, to));
        to.len() as u64 == part.end - part.start
    }
}

#[cfg(test)]
mod tests {
    use super::super::encoder::Encoder;
    use super::super::layout::{ChunkSize, SPAN_BYTES};
    use super::*;

    const WHOLE_BYTES: usize = ChunkSize::DEFAULT.whole_bytes();

    #[test]
    fn the_last_spans_are_there_and_those_before_are_not() {
        let (mut encoder, mut recent, mut stream) = (Encoder::default(), Recent::default(), Vec::new());
        let mut present = SpanBuffer::default();
        for number in 0..6_u8 {
            let mut span = SpanBuffer::empty(ChunkSize::DEFAULT, SpanBuffer::default());
            span.room().fill(number);
            span.filled(SPAN_BYTES);
            encoder.seal(&mut span);
            stream.extend_from_slice(span.as_bytes());
            if number > 0 {
                let out = recent.keep(std::mem::replace(&mut present, span));
                assert_eq!(out.is_some(), number > SPANS as u8, "no more than so many are kept");
            } else {
                present = span;
            }
        }
        let mut part = Vec::new();
        let mut has = |part_of: Range<usize>| {
            let range = part_of.start as u64..part_of.end as u64;
            let has = recent.copy_part(&present, &range, &mut part);
            assert!(!has || part == stream[part_of]);
            has
        };
        let begin = 2 * WHOLE_BYTES;
        assert!(
            has(begin..begin + 1) && has(begin + 5..begin + 3 * WHOLE_BYTES) && has(stream.len() - 9..stream.len())
        );
        assert!(!has(begin - 1..begin + 1) && !has(0..10) && !has(stream.len() - 9..stream.len() + 1));
    }
}
