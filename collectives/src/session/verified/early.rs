//! Verification of whole chunks before their span is complete, so that a broken stream does not
//! lose them.

use super::hash::{ChunkHash, is_ledger, value_in};
use super::layout::{ChunkSize, HEAD_BYTES, SPAN_BYTES, SpanPlace};

/// Returns the place of a span whose hash list begins with these bytes, if they are valid.
pub(super) fn place(chunk: ChunkSize, index: u64, ledger: &[u8]) -> Option<SpanPlace> {
    let bytes = u32::from_be_bytes(*ledger.get(..HEAD_BYTES)?.first_chunk()?) as usize;
    (1..=SPAN_BYTES).contains(&bytes).then(|| SpanPlace::new(chunk, index, bytes))
}

#[derive(Clone, Debug, Default)]
pub(super) struct Early {
    ledger: Vec<u8>,
    came: usize,
    right: Vec<ChunkHash>,
}

impl Early {
    /// Takes the next whole chunks of span `index`; the first follows the hash list. Returns the
    /// verified ones, up to the first that is damaged.
    pub(super) fn take<'a>(&mut self, size: ChunkSize, index: u64, bytes: &'a [u8]) -> &'a [u8] {
        let mut rest = bytes;
        if self.came == 0 {
            let Some(whole) = place(size, index, bytes).filter(|place| place.ledger_bytes() <= bytes.len()) else {
                return &[];
            };
            let (ledger, content) = bytes.split_at(whole.ledger_bytes());
            if is_ledger(&whole, ledger) {
                self.ledger = ledger.to_vec();
            }
            rest = content;
        }
        let (before, first) = (self.right.len(), self.came);
        self.came += rest.len() / size.bytes();
        let Some(place) = place(size, index, &self.ledger).filter(|_| before == first) else { return &[] };
        for (number, chunk) in (first..place.chunks()).zip(rest.chunks_exact(size.bytes())) {
            let hash = ChunkHash::of(place.chunk_offset(number), chunk);
            if hash.value() != value_in(&self.ledger, number) {
                break;
            }
            self.right.push(hash);
        }
        &rest[..(self.right.len() - before) * size.bytes()]
    }

    /// Ends the span, which is complete and at this place. Returns the hashes of its chunks that
    /// were delivered early; `None` if its hash list described another span.
    pub(super) fn end(&mut self, is_at: &SpanPlace) -> Option<Vec<ChunkHash>> {
        let Early { ledger, right, .. } = std::mem::take(self);
        (right.is_empty() || place(is_at.chunk_size(), is_at.index(), &ledger) == Some(*is_at)).then_some(right)
    }
}
