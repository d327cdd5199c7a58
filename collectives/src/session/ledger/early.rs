//! Whole chunks of a span whose rest has not come: who waits for the rest of a MiB loses it if the stream is cut off.

use super::hash::{ChunkHash, is_ledger, value_in};
use super::layout::{ChunkSize, HEAD_BYTES, SPAN_BYTES, SpanPlace};

/// Where a span is whose ledger begins so; none if none can.
pub(super) fn place(chunk: ChunkSize, index: u64, ledger: &[u8]) -> Option<SpanPlace> {
    let bytes = u32::from_be_bytes(*ledger.get(..HEAD_BYTES)?.first_chunk()?) as usize;
    (1..=SPAN_BYTES).contains(&bytes).then(|| SpanPlace::new(chunk, index, bytes))
}

/// What has come of the span that is next.
#[derive(Clone, Debug, Default)]
pub(super) struct Early {
    ledger: Vec<u8>,
    /// How many of its chunks have come.
    came: usize,
    /// What the first of them hash to, which are right.
    right: Vec<ChunkHash>,
}

impl Early {
    /// Takes the next whole chunks of span `index`, the first behind its ledger; those that are right, up to the first
    /// that is not.
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

    /// The span has come, and is at this place: what its first chunks hash to, which were given; none if its ledger
    /// said that it is another. The next begins.
    pub(super) fn end(&mut self, is_at: &SpanPlace) -> Option<Vec<ChunkHash>> {
        let Early { ledger, right, .. } = std::mem::take(self);
        (right.is_empty() || place(is_at.chunk_size(), is_at.index(), &ledger) == Some(*is_at)).then_some(right)
    }
}
