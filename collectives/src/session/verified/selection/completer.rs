//! Completion of spans from received chunks and chunks already held.

use super::{ChunkSet, Composed, Composer, HaveSet, HeldContent, Origin, PartialSpan};
use crate::session::Needs;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A span with the chunks present; the others must be fetched.
#[derive(Clone, Debug)]
pub struct Completed {
    /// Its hash list and content.
    pub span: Vec<u8>,
    /// Bitmap of the chunks that are present.
    pub here: u64,
    /// Bitmap of the chunks that this receiver already held.
    pub own: u64,
    /// Bitmap of those already held that are in place.
    pub in_place: u64,
}

/// An output of a [`Completer`].
#[derive(Clone, Debug)]
pub enum Completion {
    /// Want-bitmap of the next stretch whose hash lists have come. It must be sent at once, because
    /// the root waits for it.
    Needs(Needs),
    /// The next span.
    Span(Completed),
    /// The next stretch is not sent: the root only queries want-bitmaps.
    Passed,
}

/// Makes spans of received chunks and chunks already held, and lists missing chunks.
#[derive(Clone, Debug)]
pub struct Completer {
    composer: Composer,
    holdings: Option<Arc<dyn HaveSet>>,
    have: BTreeMap<u64, ChunkSet>,
}

impl Completer {
    /// Creates a completer for an offered content, of which `holdings` may have part.
    pub fn new(offer: &HeldContent, holdings: Option<Arc<dyn HaveSet>>) -> Completer {
        holdings.iter().for_each(|holdings| holdings.begin(offer));
        let composer = Composer::new(offer.chunk, offer.size);
        Completer { composer, holdings, have: BTreeMap::new() }
    }

    /// Takes the next bytes of the stream.
    pub fn take(&mut self, bytes: &[u8]) {
        self.composer.take(bytes);
    }

    /// Ends the stream.
    pub fn finish(&mut self) {
        self.composer.finish();
    }

    /// Whether all spans have been returned.
    pub fn is_done(&self) -> bool {
        self.composer.is_done()
    }

    /// Returns the first stretch for which it is not decided which chunks go to all.
    pub fn decided(&self) -> u64 {
        self.composer.decided()
    }

    /// Returns the next output; `memory` supplies memory for a span. It reads chunks already held,
    /// so it may block on their disk.
    pub fn poll(&mut self, memory: impl FnMut() -> Vec<u8>) -> Option<Completion> {
        match self.composer.poll(memory)? {
            Composed::Ledger(ledger) => {
                let all = ChunkSet::first(ledger.chunks());
                let have = self.holdings.as_ref().map_or(ChunkSet::default(), |holdings| holdings.have(&ledger));
                let have = have.and(&all);
                self.have.insert(ledger.number(), have);
                let mut set = Vec::new();
                all.without(&have).write(ledger.chunks(), &mut set);
                Some(Completion::Needs(Needs { stretch: ledger.number(), set }))
            }
            Composed::Span(span) => Some(Completion::Span(self.complete(span))),
            Composed::Passed(stretch) => {
                self.forget(stretch);
                Some(Completion::Passed)
            }
        }
    }

    fn complete(&mut self, span: PartialSpan) -> Completed {
        let PartialSpan { place, bytes, here, stretch: (stretch, first), is_last } = span;
        let mut completed = Completed { span: bytes, here, own: 0, in_place: 0 };
        let have = self.have.get(&stretch).copied().unwrap_or_default();
        for chunk in (0..place.chunks()).filter(|&chunk| here >> chunk & 1 == 0 && have.contains(first + chunk)) {
            let to = &mut completed.span[place.chunk(chunk)];
            let Some(origin) = self.holdings.as_ref().and_then(|own| own.read(stretch, first + chunk, to)) else {
                continue;
            };
            completed.own |= 1 << chunk;
            completed.in_place |= u64::from(origin == Origin::InPlace) << chunk;
        }
        completed.here |= completed.own;
        if is_last {
            self.forget(stretch);
        }
        completed
    }

    fn forget(&mut self, stretch: u64) {
        self.have.remove(&stretch);
        self.holdings.iter().for_each(|holdings| holdings.forget_below(stretch + 1));
    }
}
