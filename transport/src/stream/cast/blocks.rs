//! Losses per block and listener, and the parity sent for each block.

use crate::arq::stamp::Stamp;
use crate::time::Instant;
use crate::wire::{Ack, Rank};
use std::ops::Range;
use std::time::Duration;

/// Parity rounds per block, each making up for losses of the one before; what is still lacking then
/// is repeated as data.
const MAX_ROUNDS: u32 = 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    pub rank: Rank,
    pub lost: u128,
    covered: u32,
}

impl Losses {
    fn deficit(&self) -> u32 {
        self.lost.count_ones().saturating_sub(self.covered)
    }

    fn places(&self) -> impl Iterator<Item = u32> + use<> {
        let after = |lost: &u128| Some(lost & (lost - 1)).filter(|&rest| rest != 0);
        std::iter::successors(Some(self.lost).filter(|&lost| lost != 0), after).map(u128::trailing_zeros)
    }

    pub(super) fn lacking(&self) -> impl Iterator<Item = u32> {
        self.places().take(self.deficit() as usize)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Block {
    pub frames: Range<u64>,
    sent: Vec<Stamp>,
    losses: Vec<Losses>,
    rounds: u32,
    left: u32,
    heard_at: Option<Instant>,
}

impl Block {
    pub(super) fn deficit(&self) -> u32 {
        self.losses.iter().map(Losses::deficit).max().unwrap_or(0)
    }

    pub(super) fn lacking(&self) -> impl Iterator<Item = &Losses> {
        self.losses.iter().filter(|losses| losses.deficit() > 0)
    }

    /// Whether several listeners lack different frames, so that parity costs less than repeats.
    pub(super) fn is_worth_parity(&self) -> bool {
        let (lost, several) = self.lacking().fold((0, 0), |(lost, count), losses| (lost | losses.lost, count + 1));
        several > 1 && lost.count_ones() > self.deficit()
    }

    pub(super) fn has_parity_left(&self) -> bool {
        self.rounds < MAX_ROUNDS && (self.sent.len() as u64) < self.frames.end - self.frames.start
    }

    pub(super) fn is_going(&self) -> bool {
        self.left > 0
    }

    /// Starts a round of parity: the largest deficit, plus what will be lost of it at the block's
    /// loss rate.
    pub(super) fn go(&mut self) {
        let frames = (self.frames.end - self.frames.start) as u32;
        let needs = |losses: &Losses| losses.deficit() + losses.deficit() * losses.lost.count_ones() / frames;
        let needed = self.losses.iter().map(needs).max().unwrap_or(0);
        (self.left, self.rounds) = (needed.min(frames - self.sent.len() as u32), self.rounds + 1);
    }

    pub(super) fn stop(&mut self) {
        self.left = 0;
    }

    pub(super) fn last_sent(&self) -> Option<Stamp> {
        self.sent.last().copied()
    }

    pub(super) fn last_ack_at(&self) -> Option<Instant> {
        self.heard_at
    }

    pub(super) fn on_ack(&mut self, now: Instant) {
        self.heard_at.get_or_insert(now);
    }

    pub(super) fn send(&mut self, stamp: Stamp) -> (u8, bool) {
        let index = self.sent.len() as u8;
        self.sent.push(stamp);
        self.heard_at = None;
        self.losses.iter_mut().for_each(|losses| losses.covered += 1);
        self.left = self.left.saturating_sub(1);
        (index, !self.is_going())
    }

    fn rest(&mut self) {
        if self.losses.is_empty() {
            self.stop();
        }
    }

    pub(super) fn forget(&mut self, rank: Rank) {
        self.losses.retain(|losses| losses.rank != rank);
    }
}

#[derive(Clone, Debug)]
pub(super) struct Blocks {
    block_frames: u64,
    blocks: Vec<Block>,
    /// Time after a block's last frame by which every listener has reported its losses.
    settled_after: Duration,
    /// Time after the first such report by which the other listeners have reported.
    told_after: Duration,
}

impl Blocks {
    /// Creates blocks of `block_frames`, a power of two of at most 128; no blocks if `None`.
    pub(super) fn new(block_frames: Option<u64>) -> Blocks {
        let (settled_after, told_after) = (Duration::ZERO, Duration::ZERO);
        Blocks { block_frames: block_frames.unwrap_or(1), blocks: Vec::new(), settled_after, told_after }
    }

    pub(super) fn block_frames(&self) -> u64 {
        self.block_frames
    }

    pub(super) fn frames_of(&self, sequence: u64) -> Option<Range<u64>> {
        let first = sequence - sequence % self.block_frames;
        (self.block_frames > 1).then_some(first..first + self.block_frames)
    }

    fn find(&self, sequence: u64) -> Option<&Block> {
        let at = self.blocks.partition_point(|block| block.frames.end <= sequence);
        self.blocks.get(at).filter(|block| block.frames.contains(&sequence))
    }

    pub(super) fn first_sent(&self, sequence: u64) -> Option<Stamp> {
        self.find(sequence)?.sent.first().copied()
    }

    pub(super) fn knows(&self, rank: Rank, sequence: u64) -> bool {
        self.find(sequence).is_some_and(|block| {
            let bit = 1 << (sequence - block.frames.start);
            block.losses.iter().any(|losses| losses.rank == rank && losses.lost & bit != 0)
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        self.blocks.iter_mut()
    }

    pub(super) fn settled_after(&self) -> Duration {
        self.settled_after
    }

    pub(super) fn stop(&mut self) {
        self.blocks.iter_mut().for_each(Block::stop);
    }

    pub(super) fn report_delay(&self) -> Duration {
        self.told_after
    }

    pub(super) fn noted(&mut self, settled_after: Duration, told_after: Duration) {
        (self.settled_after, self.told_after) = (settled_after, told_after);
        self.rest();
    }

    fn rest(&mut self) {
        self.blocks.iter_mut().for_each(Block::rest);
    }

    pub(super) fn settle(&mut self, rank: Rank, ack: &Ack<'_>) {
        for block in &mut self.blocks {
            let first = block.frames.start;
            for losses in block.losses.iter_mut().filter(|losses| losses.rank == rank) {
                let arrived = losses.places().filter(|&place| ack.has(first + u64::from(place)));
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
    pub(super) fn keep(&mut self, rank: Rank, found: &[u64], is_coming: impl Fn(Stamp) -> bool) {
        for block in &mut self.blocks {
            let [from, to] =
                [block.frames.start, block.frames.end].map(|sequence| found.partition_point(|&found| found < sequence));
            let places = found[from..to].iter().fold(0, |bits, sequence| bits | 1 << (sequence - block.frames.start));
            for losses in block.losses.iter_mut().filter(|losses| losses.rank == rank) {
                losses.lost &= places;
                losses.covered = coming(&block.sent, &is_coming);
            }
            block.losses.retain(|losses| losses.lost != 0);
        }
    }

    pub(super) fn lose(&mut self, rank: Rank, sequence: u64, is_coming: impl Fn(Stamp) -> bool) {
        let Some(frames) = self.frames_of(sequence) else { return };
        let bit = 1 << (sequence - frames.start);
        let at = self.blocks.partition_point(|block| block.frames.start < frames.start);
        if self.blocks.get(at).is_none_or(|block| block.frames != frames) {
            let block = Block { frames, sent: Vec::new(), losses: Vec::new(), rounds: 0, left: 0, heard_at: None };
            self.blocks.insert(at, block);
        }
        let block = &mut self.blocks[at];
        if let Some(losses) = block.losses.iter_mut().find(|losses| losses.rank == rank) {
            losses.lost |= bit;
        } else {
            block.losses.push(Losses { rank, lost: bit, covered: coming(&block.sent, is_coming) });
        }
    }

    pub(super) fn repeated(&mut self, sequence: u64, to: Option<Rank>) {
        if let Some(block) = self.blocks.iter_mut().find(|block| block.frames.contains(&sequence)) {
            let bit = 1 << (sequence - block.frames.start);
            let reached = |losses: &&mut Losses| to.is_none_or(|rank| losses.rank == rank);
            block.losses.iter_mut().filter(reached).for_each(|losses| losses.lost &= !bit);
            block.losses.retain(|losses| losses.lost != 0);
            block.rest();
        }
    }

    pub(super) fn forget_below(&mut self, tail: u64) {
        let gone = self.blocks.partition_point(|block| block.frames.end <= tail);
        self.blocks.drain(..gone);
    }

    pub(super) fn stamps_bytes(&self) -> usize {
        let sent: usize = self.blocks.iter().map(|block| block.sent.capacity()).sum();
        sent * size_of::<Stamp>() + self.blocks.capacity() * size_of::<Block>()
    }

    pub(super) fn losses_bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.losses.capacity() * size_of::<Losses>()).sum()
    }
}

fn coming(sent: &[Stamp], is_coming: impl Fn(Stamp) -> bool) -> u32 {
    sent.iter().rev().take_while(|stamp| is_coming(**stamp)).count() as u32
}
