//! Routes of broadcasts in a group, and the numbers of their streams.

use crate::communicator::config::MAX_RANKS;
use ethbcast_planning::plan::Via;
use ethbcast_transport::wire::{Rank, StreamId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::communicator) enum MessagePath {
    Cast,
    /// Tree of this kind; `kary` stands for the agreed number of children.
    Tree(Via),
    /// Tree of least latency for the message lengths of a class.
    Latency(u8),
    Saved,
    Blocks(Via),
}

/// Routes with one stream per origin, in the order of their numbers.
const WAYS: [MessagePath; 14] = [
    MessagePath::Cast,
    MessagePath::Tree(Via::Chain),
    MessagePath::Tree(Via::Binary),
    MessagePath::Tree(KARY),
    MessagePath::Tree(Via::Binomial),
    MessagePath::Tree(Via::Flat),
    MessagePath::Latency(0),
    MessagePath::Latency(1),
    MessagePath::Latency(2),
    MessagePath::Latency(3),
    MessagePath::Saved,
    MessagePath::Tree(Via::ChainUnaware),
    MessagePath::Tree(Via::BinaryUnaware),
    MessagePath::Tree(Via::BinaryBest),
];

/// Routes with a stream for each share of each origin, in the order of their numbers.
const BLOCK_WAYS: [Via; 2] = [Via::ScatterAllgather, Via::RecursiveDoubling];

pub(super) const KARY: Via = Via::Kary(3);

/// Limit of a message's frames in each class of [`MessagePath::Latency`]; beyond, the tree hardly changes.
const LATENCY_FRAMES: [u64; 4] = [1, 4, 16, 64];

const _: () = assert!(WAYS.len() * MAX_RANKS as usize <= u16::MAX as usize, "every stream has a number");

impl MessagePath {
    pub(in crate::communicator) fn of(via: Via, frames: u64) -> MessagePath {
        match via {
            Via::Cast => MessagePath::Cast,
            Via::Latency => MessagePath::Latency(latency_class(frames)),
            Via::Kary(_) => MessagePath::Tree(KARY),
            Via::ScatterAllgather | Via::RecursiveDoubling => MessagePath::Blocks(via),
            Via::Chain | Via::Binary | Via::Binomial | Via::Flat => MessagePath::Tree(via),
            Via::ChainUnaware | Via::BinaryUnaware | Via::BinaryBest => MessagePath::Tree(via),
        }
    }

    pub(super) fn latency_frames(class: u8) -> u64 {
        LATENCY_FRAMES[usize::from(class).min(LATENCY_FRAMES.len() - 1)]
    }
}

fn latency_class(frames: u64) -> u8 {
    let class = LATENCY_FRAMES.iter().position(|&most| frames <= most);
    class.unwrap_or(LATENCY_FRAMES.len() - 1) as u8
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::communicator) struct StreamName {
    pub origin: Rank,
    pub way: MessagePath,
    pub share: u16,
}

impl StreamName {
    pub(in crate::communicator) fn new(origin: Rank, way: MessagePath) -> StreamName {
        StreamName { origin, way, share: 0 }
    }

    pub(super) fn first_of(origin: Rank) -> StreamName {
        StreamName::new(origin, MessagePath::Cast)
    }

    /// Returns the stream number among `size` ranks: casts of all origins from 1, then their
    /// chains, and so on; block-wise routes come last.
    pub(super) fn number(self, size: u16) -> StreamId {
        let (size, origin, share) = (u32::from(size), u32::from(self.origin.0), u32::from(self.share));
        let place = |way| WAYS.iter().position(|&other| other == way).unwrap_or(0) as u32;
        let at = match self.way {
            MessagePath::Blocks(via) => {
                let way = BLOCK_WAYS.iter().position(|&other| other == via).unwrap_or(0) as u32;
                WAYS.len() as u32 * size + (way * size + origin) * size + share
            }
            way => place(way) * size + origin,
        };
        StreamId(1 + at as u16)
    }

    pub(super) fn of(number: StreamId, size: u16, blocks: bool) -> Option<StreamName> {
        let (at, size) = (usize::from(number.0.checked_sub(1)?), usize::from(size));
        if let Some(&way) = WAYS.get(at / size) {
            return Some(StreamName::new(Rank((at % size) as u16), way));
        }
        let at = at - WAYS.len() * size;
        let via = BLOCK_WAYS.get(at / (size * size)).filter(|_| blocks)?;
        let (origin, share) = (Rank((at / size % size) as u16), (at % size) as u16);
        Some(StreamName { origin, way: MessagePath::Blocks(*via), share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stream_has_a_number_of_its_own() {
        for (size, blocks) in [(1, true), (3, true), (64, true), (MAX_RANKS, false)] {
            let names = (1..=u16::MAX).map_while(|number| {
                let name = StreamName::of(StreamId(number), size, blocks)?;
                assert_eq!(name.number(size), StreamId(number));
                Some(name)
            });
            let shares = if blocks { 2 * usize::from(size).pow(2) } else { 0 };
            assert_eq!(names.count(), WAYS.len() * usize::from(size) + shares, "{size} ranks");
        }
        assert_eq!(StreamName::of(StreamId(0), 3, true), None);
    }

    #[test]
    fn every_way_to_send_is_one_here() {
        for via in Via::every() {
            let ways = [1, 5, 1000].map(|frames| MessagePath::of(via, frames));
            assert!(ways.iter().all(|way| WAYS.contains(way) || matches!(way, MessagePath::Blocks(_))), "{via}");
        }
        assert_eq!(
            [1, 4, 5, 1000].map(|frames| MessagePath::of(Via::Latency, frames)),
            [0, 1, 2, 3].map(MessagePath::Latency)
        );
    }
}
