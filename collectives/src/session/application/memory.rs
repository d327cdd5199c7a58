//! A source and a sink in memory.

use super::{Again, Next, Sink, Source, Tally};
use crate::session::{Done, Outcome, Trailer};
use ethbcast_transport::Instant;

/// Content in memory to be sent, such as a `Vec`, a slice or an `Rc`.
#[derive(Clone, Debug)]
pub struct MemoryContent<B> {
    bytes: B,
    trailer: Trailer,
    pushed: usize,
}

impl<B: AsRef<[u8]>> MemoryContent<B> {
    /// Creates a content of `bytes` and computes their digest.
    pub fn new(bytes: B) -> MemoryContent<B> {
        let mut tally = Tally::default();
        tally.add(bytes.as_ref());
        let trailer = tally.trailer();
        MemoryContent { bytes, trailer, pushed: 0 }
    }

    /// Returns length and digest of the bytes.
    pub fn trailer(&self) -> Trailer {
        self.trailer
    }

    /// Returns all bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl<B: AsRef<[u8]>> Source for MemoryContent<B> {
    fn next(&mut self, _now: Instant, _passed: bool) -> Next<'_> {
        let rest = &self.bytes.as_ref()[self.pushed..];
        if rest.is_empty() { Next::End(self.trailer) } else { Next::Bytes(rest) }
    }

    fn advance(&mut self, bytes: usize) {
        self.pushed += bytes;
    }

    fn read_again(&mut self, _now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        let begin = usize::try_from(offset).unwrap_or(usize::MAX);
        let asked = self.bytes.as_ref().get(begin..begin.saturating_add(bytes));
        asked.map_or_else(|| Again::Impossible("there are no such bytes".to_owned()), Again::Bytes)
    }
}

/// Received bytes in memory; the verdict follows at once.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    bytes: Vec<u8>,
    verdict: Option<Done>,
}

impl Collected {
    /// Returns the bytes received so far; they are verified only if the verdict says so.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Refuses further bytes with this verdict.
    pub fn refuse(&mut self, outcome: Outcome, text: &str) {
        let bytes = self.bytes.len() as u64;
        self.verdict = Some(Done { outcome, bytes, digest: [0; 32], text: text.to_owned() });
    }
}

impl Sink for Collected {
    fn write(&mut self, _now: Instant, bytes: &[u8], _message_end: bool) {
        self.bytes.extend_from_slice(bytes);
    }

    fn finish(&mut self, _now: Instant, trailer: Trailer) {
        let mut tally = Tally::default();
        tally.add(&self.bytes);
        self.verdict = Some(match tally.verify(trailer) {
            Ok(()) => tally.verdict(Outcome::Verified, ""),
            Err(mismatch) => tally.verdict(Outcome::Damaged, mismatch.to_string()),
        });
    }

    fn verdict(&mut self, _now: Instant) -> Option<Done> {
        self.verdict.take()
    }
}
