//! Side streams, on which the root serves one member alone (docs/protocol/recovery.md §8.5): none begins
//! beyond that member's position.

use ethbcast_collectives::session::{Message, kind};
use ethbcast_transport::sim::Delivery;
use ethbcast_transport::wire::{Frame, Kind};
use std::collections::BTreeMap;

const SIDE: u16 = 0x4000;

#[derive(Debug, Default)]
pub(super) struct SideStreams {
    /// Frames below this were reported by the member or sent to it on its side stream.
    known: BTreeMap<usize, u64>,
    wrong: Option<String>,
}

impl SideStreams {
    pub(super) fn note(&mut self, delivery: &Delivery<'_>, frame: &Frame<'_>) {
        let (header, to) = (&frame.header, delivery.to);
        if let (Some(from), Some(Message::Ready { arrived, .. })) = (delivery.from, ready(frame)) {
            self.know(from, arrived);
        } else if header.stream.0 & SIDE != 0 && header.kind == Kind::DATA {
            self.know(to, header.sequence + 1);
        } else if header.stream.0 & SIDE != 0 && header.kind == Kind::HEARTBEAT {
            let (asked, known) = (header.sequence, self.known.get(&to).copied().unwrap_or(0));
            if asked > known {
                self.wrong.get_or_insert_with(|| {
                    format!("host {to} is asked for {asked} frames on its own stream, where it has {known}")
                });
            }
        }
    }

    fn know(&mut self, host: usize, below: u64) {
        let known = self.known.entry(host).or_default();
        *known = below.max(*known);
    }

    pub(super) fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }
}

fn ready(frame: &Frame<'_>) -> Option<Message> {
    (frame.header.kind == kind::READY).then(|| Message::decode(frame.header.kind, frame.payload)).flatten()
}
