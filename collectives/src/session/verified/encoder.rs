//! Encoder of a stream with interleaved hashes: adds hash lists to the content.

use super::hash::{
    ChunkHash, HashPool, Hashing, Merged, open_hash_list, value_in, write_hash_list,
};
use super::layout::{ChunkSize, Form, SPAN_BYTES, SpanPlace};
use crate::keys::ContentCipher;
use crate::session::message::Trailer;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// A span (1 MiB of content) filled in place: room for its hash list is kept before the content.
#[derive(Clone, Debug, Default)]
pub struct SpanBuffer {
    chunk: ChunkSize,
    bytes: Vec<u8>,
    begin: Option<usize>,
    content_bytes: usize,
}

impl SpanBuffer {
    /// Returns an empty span with chunks of size `chunk`, in the memory of `used` if it fits.
    pub fn empty(chunk: ChunkSize, used: SpanBuffer) -> SpanBuffer {
        // Only the filled part of new memory is touched.
        let fits = used.bytes.len() == chunk.whole_bytes();
        let bytes = if fits {
            used.bytes
        } else {
            vec![0; chunk.whole_bytes()]
        };
        SpanBuffer {
            chunk,
            bytes,
            begin: None,
            content_bytes: 0,
        }
    }

    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.chunk.most_hash_list_bytes() + self.content_bytes..]
    }

    pub fn filled(&mut self, bytes: usize) {
        self.content_bytes += bytes;
        debug_assert!(self.content_bytes <= SPAN_BYTES);
    }

    pub fn is_full(&self) -> bool {
        self.content_bytes == SPAN_BYTES
    }

    pub fn content_bytes(&self) -> usize {
        self.content_bytes
    }

    /// Writes the hash list before the content of span `index`; does nothing if there is no
    /// content.
    pub fn seal(&mut self, index: u64) {
        self.seal_by(index, &ContentCipher::default());
    }

    pub fn seal_by(&mut self, index: u64, cipher: &ContentCipher) {
        self.seal_with(index, &Hashing::default(), cipher, |_| ());
    }

    fn seal_with(
        &mut self,
        index: u64,
        hashing: &Hashing,
        cipher: &ContentCipher,
        mut each: impl FnMut(&ChunkHash),
    ) {
        if self.content_bytes == 0 {
            return;
        }
        let place = SpanPlace::new(self.chunk, index, self.content_bytes);
        let begin = self.chunk.most_hash_list_bytes() - place.hash_list_bytes();
        let span = &mut self.bytes[begin..];
        let chunks = hashing.hash_all(0..place.chunks(), |number| {
            ChunkHash::in_span(&place, number, span)
        });
        let chunks: Vec<ChunkHash> = chunks.collect();
        chunks.iter().for_each(&mut each);
        write_hash_list(
            &place,
            &chunks,
            &mut span[..place.hash_list_bytes()],
            cipher,
        );
        for (number, chunk) in chunks.iter().enumerate() {
            cipher.chunk(
                chunk.value(),
                place.chunk_offset(number),
                &mut span[place.chunk(number)],
            );
        }
        self.begin = Some(begin);
    }

    /// Decrypts the content of the sealed span at this place, whose hash list stays as it is.
    pub(super) fn open_content(&mut self, place: &SpanPlace, cipher: &ContentCipher) {
        let mut hash_list = self.hash_list().to_vec();
        if !cipher.is_none() && open_hash_list(place, &mut hash_list, cipher) {
            let span =
                &mut self.bytes[self.chunk.most_hash_list_bytes() - place.hash_list_bytes()..];
            (0..place.chunks()).for_each(|number| {
                cipher.chunk(
                    value_in(&hash_list, number),
                    place.chunk_offset(number),
                    &mut span[place.chunk(number)],
                );
            });
        }
    }

    /// Appends the bytes that this span, of number `index`, has of a part of the stream.
    pub fn copy_part(&self, index: u64, part: &Range<u64>, to: &mut Vec<u8>) {
        let (begin, bytes) = (index * self.chunk.whole_bytes() as u64, self.as_bytes());
        let within = |at: u64| {
            usize::try_from(at.saturating_sub(begin))
                .unwrap_or(usize::MAX)
                .min(bytes.len())
        };
        to.extend_from_slice(&bytes[within(part.start)..within(part.end)]);
    }

    pub(super) fn content(&self) -> &[u8] {
        &self.bytes[self.chunk.most_hash_list_bytes()..][..self.content_bytes]
    }

    pub(super) fn hash_list(&self) -> &[u8] {
        self.begin.map_or(&[], |begin| {
            &self.bytes[begin..self.chunk.most_hash_list_bytes()]
        })
    }

    /// Returns hash list and content once sealed; empty before.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.chunk.most_hash_list_bytes() + self.content_bytes;
        self.begin.map_or(&[], |begin| &self.bytes[begin..end])
    }
}

/// Seals the spans of a content one after the other, and computes their digest.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    chunk: ChunkSize,
    spans: u64,
    content_bytes: u64,
    merged: Merged,
    hashing: Hashing,
    cipher: ContentCipher,
}

impl Encoder {
    pub fn new(chunk: ChunkSize) -> Encoder {
        Encoder {
            chunk,
            ..Encoder::default()
        }
    }

    pub fn hashed_by(self, hash_pool: Arc<dyn HashPool>) -> Encoder {
        Encoder {
            hashing: Hashing::by(hash_pool),
            ..self
        }
    }

    pub fn ciphered(self, cipher: ContentCipher) -> Encoder {
        Encoder {
            chunk: self.chunk.signed(cipher.is_keyed()),
            cipher,
            ..self
        }
    }

    pub(super) fn cipher(&self) -> &ContentCipher {
        &self.cipher
    }

    /// Seals the next span, which must be full unless it is the last.
    pub fn seal(&mut self, span: &mut SpanBuffer) {
        debug_assert_eq!(
            span.chunk, self.chunk,
            "all chunks of a content are of one size"
        );
        span.seal_with(self.spans, &self.hashing, &self.cipher, |chunk| {
            self.merged.push(chunk)
        });
        self.spans += 1;
        self.content_bytes += span.content_bytes as u64;
    }

    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Returns the trailer: the bytes of the stream and the digest of the content.
    pub fn trailer(&self) -> Trailer {
        Trailer {
            bytes: Form::Verified(self.chunk).stream_bytes(self.content_bytes),
            digest: self.merged.digest(),
        }
    }
}

/// Number of spans kept beside the one being sent: 4 MiB in all.
const SPANS: usize = 3;

/// The last spans that have been sent.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    spans: VecDeque<SpanBuffer>,
    sent: u64,
}

impl Recent {
    pub fn keep(&mut self, span: SpanBuffer) -> Option<SpanBuffer> {
        self.sent += 1;
        self.spans.push_back(span);
        if self.spans.len() > SPANS {
            self.spans.pop_front()
        } else {
            None
        }
    }

    /// Copies a part of the stream to `to`, if it is in these spans and the `present` one, which
    /// follows them. Returns whether it is.
    pub fn copy_part(&self, present: &SpanBuffer, part: &Range<u64>, to: &mut Vec<u8>) -> bool {
        to.clear();
        let first = self.sent - self.spans.len() as u64;
        let spans = self.spans.iter().chain([present]);
        (first..)
            .zip(spans)
            .for_each(|(index, span)| span.copy_part(index, part, to));
        to.len() as u64 == part.end - part.start
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::session::verified::layout::{ChunkSize, SPAN_BYTES};

    const WHOLE_BYTES: usize = ChunkSize::DEFAULT.whole_bytes();

    #[test]
    fn the_last_spans_are_there_and_those_before_are_not() {
        let (mut encoder, mut recent, mut stream) =
            (Encoder::default(), Recent::default(), Vec::new());
        let mut present = SpanBuffer::default();
        for number in 0..6_u8 {
            let mut span = SpanBuffer::empty(ChunkSize::DEFAULT, SpanBuffer::default());
            span.room().fill(number);
            span.filled(SPAN_BYTES);
            encoder.seal(&mut span);
            stream.extend_from_slice(span.as_bytes());
            if number > 0 {
                let out = recent.keep(std::mem::replace(&mut present, span));
                assert_eq!(
                    out.is_some(),
                    number > SPANS as u8,
                    "no more than so many are kept"
                );
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
            has(begin..begin + 1)
                && has(begin + 5..begin + 3 * WHOLE_BYTES)
                && has(stream.len() - 9..stream.len())
        );
        assert!(
            !has(begin - 1..begin + 1) && !has(0..10) && !has(stream.len() - 9..stream.len() + 1)
        );
    }
}
