//! Parity decisions of a cast. Parity is sent if several listeners lost different frames of a
//! block: the most that any one of them lost is the number of parity frames that make all of them
//! whole.
//!
//! A block's losses are collected until all of it has been sent and every listener has had time to
//! report. A frame that most listeners lost is repeated at once, as is any frame that parity cannot
//! bring back.

use super::Cast;
use super::blocks::Block;
use super::listener::Listener;
use super::remote::Remote;
use crate::arq::loss_detection::LossDetection;
use crate::arq::stamp::{Stamp, Stamps};
use crate::feed::Feed;
use crate::stream::boundaries::Boundaries;
use crate::stream::outgoing::{Departure, Outgoing};
use crate::time::Instant;
use crate::wire::{Ack, Parity};

/// Listeners that must have lost a frame, and the factor by which they must outnumber those that
/// received it, for the loss to lie before the paths part.
const MANY_LOSERS: usize = 3;

impl Cast {
    pub(super) fn gather(
        &mut self,
        at: usize,
        found: &[u64],
        evidence: LossDetection,
        feed: &Feed,
        boundaries: &Boundaries,
    ) -> Vec<u64> {
        let rank = self.listeners[at].remote().rank();
        if self.listeners.len() < 2 || !self.shares_repairs() {
            self.blocks.forget_rank(rank);
            return found.to_vec();
        }
        self.blocks.keep(rank, found, |stamp| !evidence.overtook(stamp));
        let (mut repeated, mut judged) = (Vec::new(), None);
        for &sequence in found {
            if self.blocks.knows(rank, sequence) {
                continue;
            }
            if self.listeners[at].remote().awaits(sequence) {
                repeated.push(sequence);
                continue;
            }
            let Some(frames) = self.blocks.frames_of(sequence) else { return found.to_vec() }; // There are no blocks.
            let known = judged.as_ref().filter(|(of, _)| *of == frames).map(|&(_, fits)| fits);
            let fits = known.unwrap_or_else(|| feed.is_full_block(&frames) && boundaries.has_none(frames.clone()));
            judged = Some((frames, fits));
            if fits && !self.is_lost_by_most(sequence) {
                self.blocks.lose(rank, sequence, |stamp| !evidence.overtook(stamp));
            } else {
                repeated.push(sequence);
            }
        }
        let usual = self.remotes().filter_map(|remote| remote.rtt().smoothed()).max();
        let shortest = self.remotes().filter_map(|remote| remote.rtt().least()).max();
        let [settled_after, told_after] = [usual, shortest].map(|most| self.hold + most.unwrap_or_default());
        self.blocks.noted(settled_after, told_after);
        repeated
    }

    pub(super) fn waiting_for_parity(&self, sequence: u64) -> Vec<usize> {
        let waits = |&at: &usize| self.blocks.knows(self.listeners[at].remote().rank(), sequence);
        (0..self.listeners.len()).filter(waits).collect()
    }

    fn is_lost_by_most(&self, sequence: u64) -> bool {
        let count = |(lost, got): (usize, usize), remote: &Remote| {
            if remote.lacks(sequence) { (lost + 1, got) } else { (lost, got + 1) }
        };
        let (lost, got) = self.remotes().filter(|remote| remote.has_reported(sequence)).fold((0, 0), count);
        // With an acker, listeners without losses hardly report at all, while those with losses do.
        let many = if self.designation.is_some() { 2 } else { MANY_LOSERS.min(self.listeners.len()) };
        lost >= many && lost > MANY_LOSERS * got
    }

    pub(super) fn settle_blocks(&mut self, at: usize, ack: &Ack<'_>) {
        self.blocks.settle(self.listeners[at].remote().rank(), ack);
    }

    fn turn_of(&self, now: Instant, block: &Block, bound: u64) -> Option<Instant> {
        if block.is_going() || self.retired {
            return Some(Instant::START);
        }
        if self.next < block.frames.end {
            // Its end cannot be sent, perhaps just because of its losses.
            return (self.next >= bound).then_some(Instant::START);
        }
        let settled = now + self.blocks.settled_after().saturating_sub(self.last_of(block).age(now));
        // Round trips were longer while there was a queue.
        let heard = block.last_ack_at().filter(|_| self.next >= bound).map(|at| at + self.blocks.report_delay());
        Some(heard.map_or(settled, |heard| heard.min(settled)))
    }

    fn last_of(&self, block: &Block) -> Stamp {
        block.last_sent().unwrap_or(self.cast_at.get(block.frames.end - 1))
    }

    pub(super) fn note_ack(&mut self, now: Instant, at: usize) {
        let remote = self.listeners[at].remote();
        let is_news = |block: &&Block| {
            block.last_ack_at().is_none()
                && self.next >= block.frames.end
                && remote.has_acknowledged_since(self.last_of(block))
        };
        let heard: Vec<u64> = self.blocks.iter().filter(is_news).map(|block| block.frames.start).collect();
        let is_one = |block: &&mut Block| heard.contains(&block.frames.start);
        self.blocks.iter_mut().filter(is_one).for_each(|block| block.on_ack(now));
    }

    pub(super) fn parity_at(&self, now: Instant, bound: u64) -> Option<Instant> {
        let lacking = self.blocks.iter().filter(|block| block.deficit() > 0);
        lacking.filter_map(|block| self.turn_of(now, block, bound)).min()
    }

    pub(super) fn judge_blocks(&mut self, now: Instant, bound: u64, feed: &Feed) {
        // Parity needs the whole block in the feed.
        let is_gone = |block: &&mut Block| block.is_going() && !feed.is_full_block(&block.frames);
        self.blocks.iter_mut().filter(is_gone).for_each(Block::stop);
        let is_due = |block: &&Block| {
            block.deficit() > 0 && !block.is_going() && self.turn_of(now, block, bound).is_some_and(|turn| turn <= now)
        };
        let due: Vec<u64> = self.blocks.iter().filter(is_due).map(|block| block.frames.start).collect();
        let parity = self.shares_repairs();
        let mut repeated = Vec::new();
        for block in self.blocks.iter_mut().filter(|block| due.contains(&block.frames.start)) {
            let sent = self.next >= block.frames.end;
            if parity && sent && block.is_worth_parity() && block.has_parity_left() && feed.is_full_block(&block.frames)
            {
                block.go();
                continue;
            }
            let first = block.frames.start;
            let lacking: Vec<_> = block.lacking().copied().collect();
            for losses in lacking {
                repeated.extend(losses.lacking().map(|place| (losses.rank, first + u64::from(place))));
                block.forget(losses.rank);
            }
        }
        for (rank, sequence) in repeated {
            let is_loser = |listener: &Listener| listener.remote().rank() == rank;
            if let Some(at) = self.listeners.iter().position(is_loser) {
                self.lose(now, at, sequence);
            }
        }
    }

    pub(super) fn send_parity(&mut self, now: Instant, stamps: &mut Stamps, feed: &Feed) -> Option<Departure> {
        let at = self.blocks.iter().position(Block::is_going)?;
        let stamp = self.draw(now, stamps);
        let block = self.blocks.iter_mut().nth(at)?;
        let (index, urgent) = block.send(stamp);
        let parity = Parity::new(block.frames.start, block.frames.end - block.frames.start, index);
        self.allowance = self.allowance.saturating_sub(100);
        self.pace.on_sent(now, false);
        self.arm(now, feed);
        Some(Departure { outgoing: Outgoing::Parity { parity, urgent }, to: self.group, stamp })
    }
}
