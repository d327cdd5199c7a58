//! What hosts have acknowledged: none takes back what it has said, nor says what is not so of those behind it.

use ethbcast_transport::sim::Delivery;
use ethbcast_transport::wire::{Ack, AckBody, Kind, StreamId, parse};
use std::collections::BTreeMap;

/// What a host has said of a stream, each as far as it goes.
#[derive(Clone, Copy, Debug)]
struct Word {
    cursor: u64,
    below: u64,
    consumed: u64,
    limit: u64,
}

/// The newest words of all hosts.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    words: BTreeMap<(usize, StreamId), Word>,
    wrong: Option<String>,
}

impl Acknowledged {
    /// Notes what is on its way, in the order in which it was sent.
    pub(super) fn note(&mut self, delivery: &Delivery<'_>) {
        let (Some(from), Ok(frame)) = (delivery.from, parse(delivery.frame)) else { return };
        let ack = (frame.header.kind == Kind::ACK).then(|| Ack::parse(&frame)).flatten();
        let Some(Ack { cursor, body: AckBody { below, consumed, limit, .. }, .. }) = ack else { return };
        let word = Word { cursor, below, consumed, limit };
        if let Some(old) = self.words.insert((from, frame.header.stream), word) {
            let more = cursor >= old.cursor && below >= old.below && consumed >= old.consumed && limit >= old.limit;
            if !more {
                self.wrong.get_or_insert_with(|| format!("host {from} says {word:?} after {old:?}"));
            }
        }
    }

    /// Below which frame a host has said that all behind it have everything.
    pub(super) fn below(&self, host: usize, stream: StreamId) -> u64 {
        self.words.get(&(host, stream)).map_or(0, |word| word.below)
    }

    /// What was said that cannot be.
    pub(super) fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }
}
