//! Queue of a broadcast's retransmissions, each with the receivers that lost the frame.

use super::listeners::Listeners;
use super::remote::Remote;
use crate::arq::receipt::Bits;
use crate::arq::stamp::Stamp;
use crate::time::Instant;
use crate::wire::Rank;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Losers {
    /// One rank so far; until `ready_at` others may report the same loss.
    One {
        rank: Rank,
        until: Instant,
    },
    Several,
}

impl Losers {
    fn is_only(self, loser: Rank) -> bool {
        matches!(self, Losers::One { rank, .. } if rank == loser)
    }

    fn ready_at(self) -> Instant {
        match self {
            Losers::One { until, .. } => until,
            Losers::Several => Instant::START,
        }
    }
}

/// A place for each slot of the feed: losses do not make it grow. The repair of a frame waits for
/// reports of other receivers that lost it, for `hold`. A frame that several lost is repaired by
/// one broadcast if repairs `are_shared`.
#[derive(Clone, Debug)]
pub(super) struct Repairs {
    queued: Bits,
    losers: Box<[Losers]>,
    count: usize,
    tail: u64,
    end: u64,
    hold: Duration,
    pub(super) are_shared: bool,
}

impl Repairs {
    pub(super) fn new(slots: u64, are_shared: bool, hold: Duration) -> Repairs {
        let losers = vec![Losers::Several; slots as usize].into_boxed_slice();
        Repairs {
            queued: Bits::new(slots),
            losers,
            count: 0,
            tail: 0,
            end: 0,
            hold,
            are_shared,
        }
    }

    fn slot(&self, sequence: u64) -> usize {
        (sequence & (self.losers.len() as u64 - 1)) as usize
    }

    fn get(&self, sequence: u64) -> Losers {
        self.losers[self.slot(sequence)]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn has(&self, sequence: u64) -> bool {
        (self.tail..self.end).contains(&sequence) && self.queued.get(sequence)
    }

    pub(super) fn lose(
        &mut self,
        now: Instant,
        at: usize,
        sequence: u64,
        listeners: &mut Listeners,
    ) {
        let listener = &mut listeners.all[at];
        let rank = listener.remote.rank();
        if !listener.lose(sequence) {
            return;
        }
        let served = |remote: &Remote| {
            remote
                .outstanding
                .get(sequence)
                .is_some_and(|stamp| stamp != Stamp::NONE)
        };
        // The first reporter was served by unicast; from the second on they share a broadcast.
        let shared = self.are_shared
            && listeners
                .remotes()
                .enumerate()
                .any(|(other, remote)| other != at && served(remote));
        let losers = if shared {
            Losers::Several
        } else {
            Losers::One {
                rank,
                until: now + self.hold,
            }
        };
        self.queue(sequence, losers);
    }

    /// Takes the next frame to be repaired, with the listener that lost it; `None` for all.
    pub(super) fn next(
        &mut self,
        now: Instant,
        listeners: &Listeners,
    ) -> Option<(u64, Option<usize>)> {
        loop {
            let (sequence, losers) = self.first_ready(now)?;
            self.remove(sequence);
            let mut remotes = listeners.remotes();
            match losers {
                // The paper repairs by unicast (EQA §3.2): one receiver after the other.
                Losers::Several if !self.are_shared => {
                    let mut owed = remotes
                        .enumerate()
                        .filter(|(_, remote)| remote.is_owed(sequence))
                        .map(|(at, _)| at);
                    let (loser, another) = (owed.next(), owed.next());
                    if another.is_some() {
                        self.queue(sequence, Losers::Several);
                    }
                    if loser.is_some() {
                        return Some((sequence, loser));
                    }
                }
                Losers::Several if remotes.any(|remote| remote.lacks(sequence)) => {
                    return Some((sequence, None));
                }
                Losers::One { .. } if planted!("repair-dropped") => {}
                Losers::One { rank, .. } => {
                    if let Some(loser) =
                        remotes.position(|remote| remote.rank() == rank && remote.lacks(sequence))
                    {
                        return Some((sequence, Some(loser)));
                    }
                }
                Losers::Several => {}
            }
        }
    }

    fn queue(&mut self, sequence: u64, losers: Losers) {
        let slot = self.slot(sequence);
        if !self.has(sequence) {
            self.queued.set(sequence);
            self.count += 1;
            self.end = self.end.max(sequence + 1);
            self.losers[slot] = losers;
        } else if let (Losers::One { rank, .. }, before) = (losers, self.losers[slot])
            && before.is_only(rank)
        {
            // The rank reported it before, and no longer waits for others.
        } else {
            self.losers[slot] = Losers::Several;
        }
    }

    fn remove(&mut self, sequence: u64) {
        if self.has(sequence) {
            self.queued.clear(sequence);
            self.count -= 1;
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u64, Losers)> + '_ {
        let next = |from: u64| {
            if self.count == 0 {
                None
            } else {
                self.queued.first(from, self.end)
            }
        };
        std::iter::successors(next(self.tail), move |&found| next(found + 1))
            .map(|sequence| (sequence, self.get(sequence)))
    }

    fn first_ready(&self, now: Instant) -> Option<(u64, Losers)> {
        self.iter().find(|(_, losers)| losers.ready_at() <= now)
    }

    pub(super) fn ready_at(&self) -> Option<Instant> {
        self.iter().map(|(_, losers)| losers.ready_at()).min()
    }

    pub(super) fn forget_below(&mut self, tail: u64) {
        while self.count > 0
            && let Some(first) = self.queued.first(self.tail, self.end.min(tail))
        {
            self.remove(first);
        }
        self.tail = self.tail.max(tail);
        self.end = self.end.max(tail);
    }

    pub(super) fn forget_rank(&mut self, rank: Rank) {
        let only: Vec<u64> = self
            .iter()
            .filter(|(_, losers)| losers.is_only(rank))
            .map(|(sequence, _)| sequence)
            .collect();
        only.into_iter().for_each(|sequence| self.remove(sequence));
    }

    pub(super) fn bytes(&self) -> usize {
        self.queued.bytes() + size_of_val(&*self.losers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn one(rank: u16, until_us: u64) -> Losers {
        Losers::One {
            rank: Rank(rank),
            until: Instant::from_nanos(until_us * 1000),
        }
    }

    #[test]
    fn a_repair_for_one_loser_waits_for_others_and_one_for_several_does_not() {
        let mut repairs = Repairs::new(16, true, Duration::ZERO);
        repairs.forget_below(10);
        repairs.queue(20, one(3, 500));
        repairs.queue(18, one(4, 700));
        repairs.queue(20, one(3, 900));
        let at = |us| Instant::START + Duration::from_micros(us);
        assert_eq!(
            (repairs.first_ready(at(499)), repairs.ready_at()),
            (None, Some(at(500)))
        );
        assert_eq!(repairs.first_ready(at(800)), Some((18, one(4, 700))));
        repairs.queue(20, one(5, 900));
        assert_eq!(repairs.first_ready(at(0)), Some((20, Losers::Several)));
        repairs.forget_rank(Rank(4));
        assert!(!repairs.has(18) && repairs.has(20));
        repairs.forget_below(21);
        assert!(repairs.is_empty() && !repairs.has(20));
        repairs.queue(36, one(3, 0));
        assert!(repairs.has(36), "the slot of 20 can be used again");
    }
}
