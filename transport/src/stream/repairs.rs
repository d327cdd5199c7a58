//! The repairs that a cast is to send, each with who is to have it.

use crate::arq::bits::Bits;
use crate::time::Instant;

/// Who is to be sent a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Losers {
    /// One rank, so far; others have until then to report the same loss.
    One {
        rank: u16,
        until: Instant,
    },
    Several,
}

impl Losers {
    fn is_only(self, loser: u16) -> bool {
        matches!(self, Losers::One { rank, .. } if rank == loser)
    }

    /// When the repair may go.
    fn ready_at(self) -> Instant {
        match self {
            Losers::One { until, .. } => until,
            Losers::Several => Instant::START,
        }
    }
}

/// A place for each slot of the feed, so that no loss at all makes it grow.
#[derive(Debug)]
pub(super) struct Repairs {
    queued: Bits,
    losers: Box<[Losers]>,
    count: usize,
    /// Nothing is queued outside of this range.
    tail: u64,
    end: u64,
}

impl Repairs {
    pub(super) fn new(slots: u64) -> Repairs {
        let losers = vec![Losers::Several; slots as usize].into_boxed_slice();
        Repairs { queued: Bits::new(slots), losers, count: 0, tail: 0, end: 0 }
    }

    fn slot(&self, sequence: u64) -> usize {
        (sequence & (self.losers.len() as u64 - 1)) as usize
    }

    fn get(&self, sequence: u64) -> Losers {
        self.losers[self.slot(sequence)]
    }

    /// Whether nothing is queued.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether frame `sequence` is queued.
    pub(super) fn has(&self, sequence: u64) -> bool {
        (self.tail..self.end).contains(&sequence) && self.queued.get(sequence)
    }

    /// Notes that a frame was lost. A second loser makes it several.
    pub(super) fn lose(&mut self, sequence: u64, losers: Losers) {
        let slot = self.slot(sequence);
        if !self.has(sequence) {
            self.queued.set(sequence);
            self.count += 1;
            self.end = self.end.max(sequence + 1);
            self.losers[slot] = losers;
        } else if let (Losers::One { rank, .. }, before) = (losers, self.losers[slot])
            && before.is_only(rank)
        {
            // It has said so before, and waits no longer for that.
        } else {
            self.losers[slot] = Losers::Several;
        }
    }

    /// Takes frame `sequence` out.
    pub(super) fn remove(&mut self, sequence: u64) {
        if self.has(sequence) {
            self.queued.clear(sequence);
            self.count -= 1;
        }
    }

    /// All that is queued, lowest number first.
    fn iter(&self) -> impl Iterator<Item = (u64, Losers)> + '_ {
        let next = |from: u64| if self.count == 0 { None } else { self.queued.first(from, self.end) };
        std::iter::successors(next(self.tail), move |&found| next(found + 1)).map(|sequence| (sequence, self.get(sequence)))
    }

    /// The lowest number that may go now.
    pub(super) fn first_ready(&self, now: Instant) -> Option<(u64, Losers)> {
        self.iter().find(|(_, losers)| losers.ready_at() <= now)
    }

    /// When the first of all may go.
    pub(super) fn ready_at(&self) -> Option<Instant> {
        self.iter().map(|(_, losers)| losers.ready_at()).min()
    }

    /// Frames below `tail` are not kept any more.
    pub(super) fn forget_below(&mut self, tail: u64) {
        while self.count > 0
            && let Some(first) = self.queued.first(self.tail, self.end.min(tail))
        {
            self.remove(first);
        }
        self.tail = self.tail.max(tail);
        self.end = self.end.max(tail);
    }

    /// Takes out what only `rank` has lost.
    pub(super) fn forget_rank(&mut self, rank: u16) {
        let only: Vec<u64> = self.iter().filter(|(_, losers)| losers.is_only(rank)).map(|(sequence, _)| sequence).collect();
        only.into_iter().for_each(|sequence| self.remove(sequence));
    }

    pub(super) fn bytes(&self) -> usize {
        self.queued.bytes() + size_of_val(&*self.losers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn one(rank: u16, until_us: u64) -> Losers {
        Losers::One { rank, until: Instant::from_nanos(until_us * 1000) }
    }

    #[test]
    fn one_loser_waits_for_others_and_several_do_not() {
        let mut repairs = Repairs::new(16);
        repairs.forget_below(10);
        repairs.lose(20, one(3, 500));
        repairs.lose(18, one(4, 700));
        repairs.lose(20, one(3, 900));
        let at = |us| Instant::START + Duration::from_micros(us);
        assert_eq!((repairs.first_ready(at(499)), repairs.ready_at()), (None, Some(at(500))));
        assert_eq!(repairs.first_ready(at(800)), Some((18, one(4, 700))));
        repairs.lose(20, one(5, 900));
        assert_eq!(repairs.first_ready(at(0)), Some((20, Losers::Several)));
        repairs.forget_rank(4);
        assert!(!repairs.has(18) && repairs.has(20));
        repairs.forget_below(21);
        assert!(repairs.is_empty() && !repairs.has(20));
        repairs.lose(36, one(3, 0));
        assert!(repairs.has(36), "the slot of 20 can be used again");
    }
}
