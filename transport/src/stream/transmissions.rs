//! Transmissions of a lane: the stamp of each frame sent, and the frames to be repeated.

use super::memory::{Memory, tree_bytes};
use crate::arq::stamp::{Stamp, StampRing};
use crate::wire::Ack;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

#[derive(Clone, Debug)]
pub(super) struct Transmissions {
    last: StampRing,
    before: BTreeMap<u64, Stamp>,
    repairs: BTreeSet<u64>,
    passed_over: BTreeSet<u64>,
    late: BTreeSet<u64>,
}

impl Transmissions {
    pub(super) fn new(slots: u64) -> Transmissions {
        Transmissions {
            last: StampRing::new(slots),
            before: BTreeMap::new(),
            repairs: BTreeSet::new(),
            passed_over: BTreeSet::new(),
            late: BTreeSet::new(),
        }
    }

    pub(super) fn memory(&self) -> Memory {
        let before_bytes = tree_bytes(self.before.len(), size_of::<(u64, Stamp)>());
        let queued = self.repairs.len() + self.passed_over.len() + self.late.len();
        let repairs_bytes = tree_bytes(queued, size_of::<u64>()) + before_bytes;
        Memory { readers_bytes: self.last.bytes(), repairs_bytes, ..Memory::default() }
    }

    pub(super) fn last(&self, sequence: u64) -> Stamp {
        self.last.get(sequence)
    }

    pub(super) fn before_and_last(&self, sequence: u64) -> (Stamp, Stamp) {
        let last = self.last(sequence);
        (self.before.get(&sequence).copied().unwrap_or(last), last)
    }

    #[inline]
    pub(super) fn sent(&mut self, sequence: u64, stamp: Stamp) {
        if !self.repairs.is_empty() && self.repairs.remove(&sequence) {
            self.before.insert(sequence, self.last(sequence));
        }
        self.late.remove(&sequence);
        self.last.set(sequence, stamp);
    }

    pub(super) fn pass_over(&mut self, frames: Range<u64>) {
        self.forget(frames.clone());
        self.passed_over.extend(frames);
    }

    pub(super) fn on_arrival(&mut self, sequence: u64) {
        if self.passed_over.remove(&sequence) {
            self.late.insert(sequence);
        }
    }

    pub(super) fn end_at(&mut self, end: u64) {
        for queued in [&mut self.repairs, &mut self.passed_over, &mut self.late] {
            queued.split_off(&end);
        }
    }

    pub(super) fn forget(&mut self, frames: Range<u64>) {
        frames.take(self.last.slots()).for_each(|sequence| self.last.set(sequence, Stamp::NONE));
    }

    pub(super) fn settle(&mut self, ack: &Ack<'_>, from: u64) {
        let is_lacking = |&sequence: &u64| sequence >= from && !ack.has(sequence);
        self.repairs.retain(|sequence| is_lacking(sequence) || planted!("freed-slot-sent-again"));
        self.passed_over.retain(is_lacking);
        self.late.retain(is_lacking);
        if self.before.first_key_value().is_some_and(|(&first, _)| first < from) {
            self.before = self.before.split_off(&from);
        }
    }

    pub(super) fn replace_queued(&mut self, frames: impl Iterator<Item = u64>, to_come: impl Fn(u64) -> bool) {
        (self.passed_over, self.repairs) = frames.partition(|&sequence| to_come(sequence));
        self.late.clear();
    }

    /// Adds `frames` to the queue of repeats; returns how many are new. A frame never sent from
    /// here is not lost, nor is one that is `to_come`: it is sent when it arrives.
    pub(super) fn add_repairs(&mut self, frames: impl Iterator<Item = u64>, to_come: impl Fn(u64) -> bool) -> u64 {
        let before = self.repairs.len();
        for sequence in frames {
            if to_come(sequence) {
                self.passed_over.insert(sequence);
            } else if !self.late.contains(&sequence) {
                self.repairs.insert(sequence);
            }
        }
        (self.repairs.len() - before) as u64
    }

    pub(super) fn queued(&self) -> u64 {
        (self.repairs.len() + self.passed_over.len() + self.late.len()) as u64
    }

    pub(super) fn has_passed_over(&self) -> bool {
        !self.passed_over.is_empty()
    }

    #[inline]
    pub(super) fn next_late(&self, is_here: impl Fn(u64) -> bool) -> Option<u64> {
        self.late.iter().copied().find(|&sequence| is_here(sequence))
    }

    #[inline]
    pub(super) fn next_repair(&self, is_here: impl Fn(u64) -> bool) -> Option<u64> {
        self.repairs.iter().copied().find(|&sequence| is_here(sequence))
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
        assert_eq!(
            (sent.add_repairs([5, 7].into_iter(), |_| false), sent.add_repairs([5].into_iter(), |_| false)),
            (2, 0)
        );
        assert_eq!((sent.next_repair(|_| true), sent.next_repair(|at| at > 5), sent.queued()), (Some(5), Some(7), 2));
        sent.sent(5, Stamp(20));
        assert_eq!((sent.before_and_last(5), sent.before_and_last(7)), ((Stamp(5), Stamp(20)), (Stamp(7), Stamp(7))));
        sent.add_repairs([5].into_iter(), |_| false);
        sent.sent(5, Stamp(30));
        assert_eq!(sent.before_and_last(5), (Stamp(20), Stamp(30)));
        let body = AckBody { limit: 20, below: 6, consumed: 6, held_us: 0 };
        sent.settle(&Ack { cursor: 6, echo: 30, body, bitmap: &[0b1], end: u64::MAX }, 6);
        assert_eq!((sent.queued(), sent.before_and_last(5)), (0, (Stamp(30), Stamp(30))));
        sent.forget(8..1 << 40);
        assert_eq!(sent.last(8), Stamp::NONE);
    }

    #[test]
    fn what_is_passed_over_is_not_lost_and_is_sent_once_it_has_come() {
        let mut sent = Transmissions::new(16);
        sent.sent(2, Stamp(2));
        sent.pass_over(3..6);
        sent.sent(6, Stamp(6));
        assert_eq!(
            (sent.add_repairs(2..6, |sequence| sequence > 2), sent.queued(), sent.has_passed_over()),
            (1, 4, true),
            "2 alone was sent"
        );
        assert_eq!(sent.next_late(|_| true), None);
        [9, 4, 3].into_iter().for_each(|sequence| sent.on_arrival(sequence));
        assert_eq!((sent.next_late(|_| true), sent.queued()), (Some(3), 4), "9 is behind all that was sent");
        sent.sent(3, Stamp(20));
        assert_eq!((sent.next_late(|_| true), sent.before_and_last(3)), (Some(4), (Stamp(20), Stamp(20))));
        let body = AckBody { limit: 20, below: 2, consumed: 2, held_us: 0 };
        sent.settle(&Ack { cursor: 2, echo: 20, body, bitmap: &[0b10], end: u64::MAX }, 2);
        assert_eq!((sent.next_late(|_| true), sent.queued()), (None, 2), "the child has 4 from somebody else");
        sent.end_at(5);
        assert_eq!((sent.queued(), sent.has_passed_over()), (1, false));
        sent.replace_queued([7, 8].into_iter(), |sequence| sequence == 7);
        assert_eq!((sent.next_repair(|_| true), sent.queued(), sent.has_passed_over()), (Some(8), 2, true));
    }
}
