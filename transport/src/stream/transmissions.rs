//! What a lane has sent, each frame under which stamp, and what of it is to be sent again.

use super::memory::{Memory, tree_bytes};
use crate::arq::stamp::{Stamp, StampRing};
use crate::wire::Ack;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The transmissions to one child.
#[derive(Clone, Debug)]
pub(super) struct Transmissions {
    /// Under which stamp each frame was sent last.
    last: StampRing,
    /// Under which stamp what has been sent again was sent the time before.
    before: BTreeMap<u64, Stamp>,
    /// What is to be sent again.
    repairs: BTreeSet<u64>,
}

impl Transmissions {
    /// Nothing sent, of frames that lie in so many slots.
    pub(super) fn new(slots: u64) -> Transmissions {
        Transmissions { last: StampRing::new(slots), before: BTreeMap::new(), repairs: BTreeSet::new() }
    }

    /// Bytes of the stamps, and at most of the queued repairs.
    pub(super) fn memory(&self) -> Memory {
        let before_bytes = tree_bytes(self.before.len(), size_of::<(u64, Stamp)>());
        let repairs_bytes = tree_bytes(self.repairs.len(), size_of::<u64>()) + before_bytes;
        Memory { readers_bytes: self.last.bytes(), repairs_bytes, ..Memory::default() }
    }

    /// Under which stamp frame `sequence` was sent last.
    pub(super) fn last(&self, sequence: u64) -> Stamp {
        self.last.get(sequence)
    }

    /// Under which stamps it was sent last, and the time before that; twice the same if once.
    pub(super) fn before_and_last(&self, sequence: u64) -> (Stamp, Stamp) {
        let last = self.last(sequence);
        (self.before.get(&sequence).copied().unwrap_or(last), last)
    }

    /// A frame is sent, for the first time or again.
    #[inline]
    pub(super) fn sent(&mut self, sequence: u64, stamp: Stamp) {
        if !self.repairs.is_empty() && self.repairs.remove(&sequence) {
            self.before.insert(sequence, self.last(sequence));
        }
        self.last.set(sequence, stamp);
    }

    /// These frames were not sent from here.
    pub(super) fn forget(&mut self, frames: Range<u64>) {
        frames.take(self.last.slots()).for_each(|sequence| self.last.set(sequence, Stamp::NONE));
    }

    /// Frames from `from` on are of interest, and only those that have not arrived.
    pub(super) fn settle(&mut self, ack: &Ack<'_>, from: u64) {
        self.repairs.retain(|&sequence| (sequence >= from && !ack.has(sequence)) || planted!("freed-slot-sent-again"));
        if self.before.first_key_value().is_some_and(|(&first, _)| first < from) {
            self.before = self.before.split_off(&from);
        }
    }

    /// These frames, and no others, are to be sent again.
    pub(super) fn replace_repairs(&mut self, frames: impl Iterator<Item = u64>) {
        self.repairs = frames.collect();
    }

    /// These frames are to be sent again, too; how many of them were not.
    pub(super) fn add_repairs(&mut self, frames: impl Iterator<Item = u64>) -> u64 {
        let before = self.repairs.len();
        self.repairs.extend(frames);
        (self.repairs.len() - before) as u64
    }

    /// How many frames are to be sent again.
    pub(super) fn repairs(&self) -> u64 {
        self.repairs.len() as u64
    }

    /// The first frame that is to be sent again.
    #[inline]
    pub(super) fn next_repair(&self) -> Option<u64> {
        self.repairs.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::AckBody;

    #[test]
    fn what_is_sent_again_keeps_the_stamp_of_the_time_before() {
        let mut sent = Transmissions::new(16);
        (3..9).for_each(|sequence| sent.sent(sequence, Stamp(sequence as u32)));
        assert_eq!((sent.add_repairs([5, 7].into_iter()), sent.add_repairs([5].into_iter())), (2, 0));
        assert_eq!((sent.next_repair(), sent.repairs()), (Some(5), 2));
        sent.sent(5, Stamp(20));
        assert_eq!((sent.before_and_last(5), sent.before_and_last(7)), ((Stamp(5), Stamp(20)), (Stamp(7), Stamp(7))));
        sent.add_repairs([5].into_iter());
        sent.sent(5, Stamp(30));
        assert_eq!(sent.before_and_last(5), (Stamp(20), Stamp(30)));
        let body = AckBody { limit: 20, below: 6, consumed: 6, held_us: 0 };
        sent.settle(&Ack { cursor: 6, echo: 30, body, bitmap: &[0b1], end: u64::MAX }, 6);
        assert_eq!((sent.repairs(), sent.before_and_last(5)), (0, (Stamp(30), Stamp(30))));
        sent.forget(8..1 << 40);
        assert_eq!(sent.last(8), Stamp::NONE);
    }
}
