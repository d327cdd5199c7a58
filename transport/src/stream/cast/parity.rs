//! Parity (FEC) in a broadcast: counts each receiver's losses per block, and decides how much
//! parity to send.
//!
//! Parity is sent if several receivers lost different frames of a block: the most that any one of
//! them lost is the number of parity frames that make all of them whole. A block's losses are
//! collected until all of it has been sent and every receiver has had time to report. A frame that
//! most receivers lost is repeated at once, as is any frame that parity cannot bring back.

use super::listeners::Listeners;
use crate::arq::stamp::Stamp;
use crate::feed::Feed;
use crate::stream::readers::AckContext;
use crate::time::Instant;
use crate::wire::{Ack, Parity, Rank};
use std::ops::Range;
use std::time::Duration;

const MAX_ROUNDS: u32 = 4;

#[derive(Clone, Copy, Debug)]
struct Losses {
    rank: Rank,
    lost: u128,
    covered: u32,
}

impl Losses {
    fn deficit(&self) -> u32 {
        self.lost.count_ones().saturating_sub(self.covered)
    }

    fn places(&self) -> impl Iterator<Item = u32> + use<> {
        let after = |lost: &u128| Some(lost & (lost - 1)).filter(|&rest| rest != 0);
        std::iter::successors(Some(self.lost).filter(|&lost| lost != 0), after)
            .map(u128::trailing_zeros)
    }

    fn lacking(&self) -> impl Iterator<Item = u32> {
        self.places().take(self.deficit() as usize)
    }
}

/// A block with losses. It has at most `MAX_ROUNDS` of parity, each making up for losses of the one
/// before; what is still lacking then is repeated as data.
#[derive(Clone, Debug)]
pub(super) struct Block {
    frames: Range<u64>,
    sent: Vec<Stamp>,
    losses: Vec<Losses>,
    rounds: u32,
    left: u32,
    last_received_at: Option<Instant>,
}

impl Block {
    fn deficit(&self) -> u32 {
        self.losses.iter().map(Losses::deficit).max().unwrap_or(0)
    }

    fn lacking(&self) -> impl Iterator<Item = &Losses> {
        self.losses.iter().filter(|losses| losses.deficit() > 0)
    }

    /// Whether several listeners lack different frames, so that parity costs less than repeats.
    fn is_worth_parity(&self) -> bool {
        let (lost, several) = self.lacking().fold((0, 0), |(lost, count), losses| {
            (lost | losses.lost, count + 1)
        });
        several > 1 && lost.count_ones() > self.deficit()
    }

    fn has_parity_left(&self) -> bool {
        self.rounds < MAX_ROUNDS && (self.sent.len() as u64) < self.frames.end - self.frames.start
    }

    fn is_going(&self) -> bool {
        self.left > 0
    }

    /// Starts a round of parity: the largest deficit, plus the frames of it that will be lost at
    /// the block's loss rate.
    fn go(&mut self) {
        let frames = (self.frames.end - self.frames.start) as u32;
        let needs = |losses: &Losses| {
            losses.deficit() + losses.deficit() * losses.lost.count_ones() / frames
        };
        let needed = self.losses.iter().map(needs).max().unwrap_or(0);
        (self.left, self.rounds) = (needed.min(frames - self.sent.len() as u32), self.rounds + 1);
    }

    fn stop(&mut self) {
        self.left = 0;
    }

    pub(super) fn send(&mut self, stamp: Stamp) -> (Parity, bool) {
        let index = self.sent.len() as u8;
        self.sent.push(stamp);
        self.last_received_at = None;
        self.losses
            .iter_mut()
            .for_each(|losses| losses.covered += 1);
        self.left = self.left.saturating_sub(1);
        (
            Parity::new(
                self.frames.start,
                self.frames.end - self.frames.start,
                index,
            ),
            !self.is_going(),
        )
    }

    fn rest(&mut self) {
        if self.losses.is_empty() {
            self.stop();
        }
    }

    fn forget(&mut self, rank: Rank) {
        self.losses.retain(|losses| losses.rank != rank);
    }
}

/// Blocks of a cast. Losses of other listeners are awaited for `hold`. Every listener has reported
/// its losses when `settled_after` has passed since a block's last frame, or `told_after` since the
/// first such report. Once `retired`, they send no parity any more: the losses are repeated as
/// data.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    pub(super) block_frames: u64,
    blocks: Vec<Block>,
    hold: Duration,
    retired: bool,
    settled_after: Duration,
    told_after: Duration,
}

impl Blocks {
    /// Creates blocks of `block_frames`, a power of two of at most 128; no blocks if `None`.
    pub(super) fn new(block_frames: Option<u64>, hold: Duration) -> Blocks {
        let (settled_after, told_after) = (Duration::ZERO, Duration::ZERO);
        let (block_frames, blocks) = (block_frames.unwrap_or(1), Vec::new());
        Blocks {
            block_frames,
            blocks,
            hold,
            retired: false,
            settled_after,
            told_after,
        }
    }

    fn frames_of(&self, sequence: u64) -> Option<Range<u64>> {
        let first = sequence - sequence % self.block_frames;
        (self.block_frames > 1).then_some(first..first + self.block_frames)
    }

    fn find(&self, sequence: u64) -> Option<&Block> {
        let at = self
            .blocks
            .partition_point(|block| block.frames.end <= sequence);
        self.blocks
            .get(at)
            .filter(|block| block.frames.contains(&sequence))
    }

    pub(super) fn first_sent(&self, sequence: u64) -> Option<Stamp> {
        self.find(sequence)?.sent.first().copied()
    }

    pub(super) fn knows(&self, rank: Rank, sequence: u64) -> bool {
        self.find(sequence).is_some_and(|block| {
            let bit = 1 << (sequence - block.frames.start);
            block
                .losses
                .iter()
                .any(|losses| losses.rank == rank && losses.lost & bit != 0)
        })
    }

    pub(super) fn retire(&mut self) {
        self.retired = true;
        self.blocks.iter_mut().for_each(Block::stop);
    }

    /// Records the losses `found` of the listener at `at`, in rising order; returns those that are
    /// repeated as data.
    pub(super) fn gather(
        &mut self,
        at: usize,
        found: &[u64],
        with_acker: bool,
        listeners: &Listeners,
        context: &AckContext<'_>,
    ) -> Vec<u64> {
        let AckContext {
            feed, boundaries, ..
        } = context;
        let evidence = listeners.evidence(at, context.ack);
        let remote = &listeners.all[at].remote;
        let rank = remote.rank();
        self.keep(rank, found, |stamp| !evidence.overtook(stamp));
        let (mut repeated, mut judged) = (Vec::new(), None);
        for &sequence in found {
            if self.knows(rank, sequence) {
                continue;
            }
            if remote.awaits(sequence) {
                repeated.push(sequence);
                continue;
            }
            let Some(frames) = self.frames_of(sequence) else {
                return found.to_vec();
            }; // There are no blocks.
            let known = judged
                .as_ref()
                .filter(|(of, _)| *of == frames)
                .map(|&(_, fits)| fits);
            let fits = known.unwrap_or_else(|| {
                feed.is_full_block(&frames) && boundaries.has_none(frames.clone())
            });
            judged = Some((frames, fits));
            if fits && !listeners.is_lost_by_most(sequence, with_acker) {
                self.lose(rank, sequence, |stamp| !evidence.overtook(stamp));
            } else {
                repeated.push(sequence);
            }
        }
        let usual = listeners
            .remotes()
            .filter_map(|remote| remote.rtt().smoothed())
            .max();
        let shortest = listeners
            .remotes()
            .filter_map(|remote| remote.rtt().least())
            .max();
        [self.settled_after, self.told_after] =
            [usual, shortest].map(|most| self.hold + most.unwrap_or_default());
        self.rest();
        repeated
    }

    pub(super) fn awaited_by(&self, sequence: u64, listeners: &Listeners) -> Vec<usize> {
        let waits = |&at: &usize| self.knows(listeners.all[at].remote.rank(), sequence);
        (0..listeners.all.len()).filter(waits).collect()
    }

    fn turn_of(
        &self,
        now: Instant,
        block: &Block,
        bound: u64,
        listeners: &Listeners,
    ) -> Option<Instant> {
        if block.is_going() || self.retired {
            return Some(Instant::START);
        }
        if listeners.next < block.frames.end {
            // Its end cannot be sent, perhaps just because of its losses.
            return (listeners.next >= bound).then_some(Instant::START);
        }
        let settled = now
            + self
                .settled_after
                .saturating_sub(last_of(block, listeners).age(now));
        // Round trips were longer while there was a queue.
        let heard = block
            .last_received_at
            .filter(|_| listeners.next >= bound)
            .map(|at| at + self.told_after);
        Some(heard.map_or(settled, |heard| heard.min(settled)))
    }

    /// Records that the listener at `at` has acknowledged the last frame of blocks.
    pub(super) fn note_ack(&mut self, now: Instant, at: usize, listeners: &Listeners) {
        let remote = &listeners.all[at].remote;
        for block in self
            .blocks
            .iter_mut()
            .filter(|block| block.last_received_at.is_none())
        {
            if listeners.next >= block.frames.end
                && remote.has_acknowledged_since(last_of(block, listeners))
            {
                block.last_received_at = Some(now);
            }
        }
    }

    pub(super) fn ready_at(
        &self,
        now: Instant,
        bound: u64,
        listeners: &Listeners,
    ) -> Option<Instant> {
        let lacking = self.blocks.iter().filter(|block| block.deficit() > 0);
        lacking
            .filter_map(|block| self.turn_of(now, block, bound, listeners))
            .min()
    }

    /// Starts a round of parity for each block whose turn has come; returns the losses, each with
    /// the receiver, that are repeated as data instead.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        bound: u64,
        listeners: &Listeners,
        feed: &Feed,
    ) -> Vec<(Rank, u64)> {
        // Parity needs the whole block in the feed.
        let is_gone = |block: &&mut Block| block.is_going() && !feed.is_full_block(&block.frames);
        self.blocks.iter_mut().filter(is_gone).for_each(Block::stop);
        let is_due = |block: &Block| {
            let turn = || self.turn_of(now, block, bound, listeners);
            block.deficit() > 0 && !block.is_going() && turn().is_some_and(|turn| turn <= now)
        };
        let due: Vec<bool> = self.blocks.iter().map(is_due).collect();
        let mut repeated = Vec::new();
        for (block, _) in self.blocks.iter_mut().zip(due).filter(|(_, due)| *due) {
            let sent = !self.retired && listeners.next >= block.frames.end;
            if sent
                && block.is_worth_parity()
                && block.has_parity_left()
                && feed.is_full_block(&block.frames)
            {
                block.go();
                continue;
            }
            let first = block.frames.start;
            let lacking: Vec<_> = block.lacking().copied().collect();
            for losses in lacking {
                repeated.extend(
                    losses
                        .lacking()
                        .map(|place| (losses.rank, first + u64::from(place))),
                );
                block.forget(losses.rank);
            }
        }
        repeated
    }

    pub(super) fn going(&mut self) -> Option<&mut Block> {
        self.blocks.iter_mut().find(|block| block.is_going())
    }

    fn rest(&mut self) {
        self.blocks.iter_mut().for_each(Block::rest);
    }

    pub(super) fn settle(&mut self, rank: Rank, ack: &Ack<'_>) {
        for block in &mut self.blocks {
            let first = block.frames.start;
            for losses in block.losses.iter_mut().filter(|losses| losses.rank == rank) {
                let arrived = losses
                    .places()
                    .filter(|&place| ack.has(first + u64::from(place)));
                losses.lost = arrived.fold(losses.lost, |lost, place| lost & !(1 << place));
            }
            block.losses.retain(|losses| losses.lost != 0);
        }
    }

    pub(super) fn remove(&mut self, rank: Rank) {
        self.forget_rank(rank);
        self.rest();
    }

    pub(super) fn forget_rank(&mut self, rank: Rank) {
        self.blocks.iter_mut().for_each(|block| block.forget(rank));
    }

    /// Restricts the losses of `rank` to `found`, in rising order. `is_coming` says of a parity
    /// frame's stamp whether it is still in flight to `rank`.
    fn keep(&mut self, rank: Rank, found: &[u64], is_coming: impl Fn(Stamp) -> bool) {
        for block in &mut self.blocks {
            let [from, to] = [block.frames.start, block.frames.end]
                .map(|sequence| found.partition_point(|&found| found < sequence));
            let places = found[from..to].iter().fold(0, |bits, sequence| {
                bits | 1 << (sequence - block.frames.start)
            });
            for losses in block.losses.iter_mut().filter(|losses| losses.rank == rank) {
                losses.lost &= places;
                losses.covered = coming(&block.sent, &is_coming);
            }
            block.losses.retain(|losses| losses.lost != 0);
        }
    }

    fn lose(&mut self, rank: Rank, sequence: u64, is_coming: impl Fn(Stamp) -> bool) {
        let Some(frames) = self.frames_of(sequence) else {
            return;
        };
        let bit = 1 << (sequence - frames.start);
        let at = self
            .blocks
            .partition_point(|block| block.frames.start < frames.start);
        if self
            .blocks
            .get(at)
            .is_none_or(|block| block.frames != frames)
        {
            let block = Block {
                frames,
                sent: Vec::new(),
                losses: Vec::new(),
                rounds: 0,
                left: 0,
                last_received_at: None,
            };
            self.blocks.insert(at, block);
        }
        let block = &mut self.blocks[at];
        if let Some(losses) = block.losses.iter_mut().find(|losses| losses.rank == rank) {
            losses.lost |= bit;
        } else {
            block.losses.push(Losses {
                rank,
                lost: bit,
                covered: coming(&block.sent, is_coming),
            });
        }
    }

    pub(super) fn repeated(&mut self, sequence: u64, to: Option<Rank>) {
        if let Some(block) = self
            .blocks
            .iter_mut()
            .find(|block| block.frames.contains(&sequence))
        {
            let bit = 1 << (sequence - block.frames.start);
            let reached = |losses: &&mut Losses| to.is_none_or(|rank| losses.rank == rank);
            block
                .losses
                .iter_mut()
                .filter(reached)
                .for_each(|losses| losses.lost &= !bit);
            block.losses.retain(|losses| losses.lost != 0);
            block.rest();
        }
    }

    pub(super) fn forget_below(&mut self, tail: u64) {
        let gone = self
            .blocks
            .partition_point(|block| block.frames.end <= tail);
        self.blocks.drain(..gone);
    }

    pub(super) fn stamps_bytes(&self) -> usize {
        let sent: usize = self.blocks.iter().map(|block| block.sent.capacity()).sum();
        sent * size_of::<Stamp>() + self.blocks.capacity() * size_of::<Block>()
    }

    pub(super) fn losses_bytes(&self) -> usize {
        self.blocks
            .iter()
            .map(|block| block.losses.capacity() * size_of::<Losses>())
            .sum()
    }
}

fn last_of(block: &Block, listeners: &Listeners) -> Stamp {
    block
        .sent
        .last()
        .copied()
        .unwrap_or(listeners.cast_at.get(block.frames.end - 1))
}

fn coming(sent: &[Stamp], is_coming: impl Fn(Stamp) -> bool) -> u32 {
    sent.iter()
        .rev()
        .take_while(|stamp| is_coming(**stamp))
        .count() as u32
}
