//! Acknowledgements of all hosts: none is withdrawn, and none claims too much for the hosts behind
//! the sender.

use ethbcast_transport::sim::Delivery;
use ethbcast_transport::wire::{Ack, AckBody, Kind, StreamId, parse};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
struct Word {
    cursor: u64,
    below: u64,
    consumed: u64,
    limit: u64,
}

#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    words: BTreeMap<(usize, StreamId), Word>,
    wrong: Option<String>,
}

impl Acknowledged {
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

    /// Returns the frame below which `host` has claimed that all hosts behind it have everything.
    pub(super) fn below(&self, host: usize, stream: StreamId) -> u64 {
        self.words.get(&(host, stream)).map_or(0, |word| word.below)
    }

    pub(super) fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }
}
