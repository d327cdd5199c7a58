//! Puts together what has come and what a receiver has already.

use super::{ChunkSet, Composed, Composer, HeldOffer, Holdings, Origin, PartialSpan};
use crate::session::Needs;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A span with what there is of it; what is in neither is to be fetched.
#[derive(Clone, Debug)]
pub struct Completed {
    /// Its ledger and content.
    pub span: Vec<u8>,
    /// Chunks that are here: a bit for each.
    pub here: u64,
    /// Those of them that are the receiver's own.
    pub own: u64,
    /// Those of these that stand already where they belong.
    pub in_place: u64,
}

/// What a [`Completer`] has next.
#[derive(Clone, Debug)]
pub enum Completion {
    /// What is lacking of the next stretch whose ledgers have come: to be said at once, the root waits for it.
    Needs(Needs),
    /// The next span.
    Span(Completed),
    /// Nothing comes of the next stretch: it was only asked what is lacking.
    Passed,
}

/// Makes spans of what a root sends and of what a receiver has already, and says what is lacking.
#[derive(Clone, Debug)]
pub struct Completer {
    composer: Composer,
    holdings: Option<Arc<dyn Holdings>>,
    /// What is here of the stretches whose ledgers have come.
    have: BTreeMap<u64, ChunkSet>,
}

impl Completer {
    /// For the content of this offer, of which `holdings` may have some.
    pub fn new(offer: &HeldOffer, holdings: Option<Arc<dyn Holdings>>) -> Completer {
        holdings.iter().for_each(|holdings| holdings.begin(offer));
        let composer = Composer::new(offer.chunk, offer.size);
        Completer { composer, holdings, have: BTreeMap::new() }
    }

    /// Takes the next bytes of the stream.
    pub fn take(&mut self, bytes: &[u8]) {
        self.composer.take(bytes);
    }

    /// That was all.
    pub fn finish(&mut self) {
        self.composer.finish();
    }

    /// Whether all spans have been given.
    pub fn is_done(&self) -> bool {
        self.composer.is_done()
    }

    /// Below this stretch it is decided what all are sent.
    pub fn decided(&self) -> u64 {
        self.composer.decided()
    }

    /// What comes next; `memory` gives memory for a span. Reads what is here: as slow as its disk.
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

    /// Reads what of a span has not come and is here.
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

    /// Nothing more is done with a stretch.
    fn forget(&mut self, stretch: u64) {
        self.have.remove(&stretch);
        self.holdings.iter().for_each(|holdings| holdings.forget_below(stretch + 1));
    }
}
