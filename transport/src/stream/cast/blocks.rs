//! What listeners have lost of each block, and which parity of it has been sent.

use crate::arq::stamp::Stamp;
use crate::time::Instant;
use crate::wire::{Ack, Rank};
use std::ops::Range;
use std::time::Duration;

/// Parity is sent so often for a block; who lacks frames of it then is sent those. Each time makes up for what was lost
/// of the time before.
const MOST_ROUNDS: u32 = 4;

/// What one listener has lost of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    pub rank: Rank,
    /// A bit for each frame, the block's first in the lowest.
    pub lost: u128,
    /// Parity frames that are on their way to it.
    covered: u32,
}

impl Losses {
    /// Frames that it lacks, and would with all that is on its way.
    fn deficit(&self) -> u32 {
        self.lost.count_ones().saturating_sub(self.covered)
    }

    /// The lost frames' places, the lowest first.
    fn places(&self) -> impl Iterator<Item = u32> + use<> {
        let after = |lost: &u128| Some(lost & (lost - 1)).filter(|&rest| rest != 0);
        std::iter::successors(Some(self.lost).filter(|&lost| lost != 0), after).map(u128::trailing_zeros)
    }

    /// The lowest of the lost frames, as many as would be lacking.
    pub(super) fn lacking(&self) -> impl Iterator<Item = u32> {
        self.places().take(self.deficit() as usize)
    }
}

/// A block of which somebody has lost frames.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub frames: Range<u64>,
    /// The stamp of each parity frame sent.
    sent: Vec<Stamp>,
    losses: Vec<Losses>,
    rounds: u32,
    /// Parity frames that are to be sent now.
    left: u32,
    /// When somebody first said that the last frame of it has come, parity or not.
    heard_at: Option<Instant>,
}

impl Block {
    /// How many frames help everybody: the most that anybody lacks.
    pub(super) fn deficit(&self) -> u32 {
        self.losses.iter().map(Losses::deficit).max().unwrap_or(0)
    }

    /// Those who lack frames.
    pub(super) fn lacking(&self) -> impl Iterator<Item = &Losses> {
        self.losses.iter().filter(|losses| losses.deficit() > 0)
    }

    /// Whether parity costs less than to send again what is lost, as far as that alone decides: several lack frames,
    /// and different ones.
    pub(super) fn is_worth_parity(&self) -> bool {
        let (lost, several) = self.lacking().fold((0, 0), |(lost, count), losses| (lost | losses.lost, count + 1));
        several > 1 && lost.count_ones() > self.deficit()
    }

    /// Whether there is parity left to send.
    pub(super) fn has_parity_left(&self) -> bool {
        self.rounds < MOST_ROUNDS && (self.sent.len() as u64) < self.frames.end - self.frames.start
    }

    /// Whether parity is being sent.
    pub(super) fn is_going(&self) -> bool {
        self.left > 0
    }

    /// Parity is sent from now on: as much as anybody lacks, and what is lost of that if it is lost as the block was.
    pub(super) fn go(&mut self) {
        let frames = (self.frames.end - self.frames.start) as u32;
        let needs = |losses: &Losses| losses.deficit() + losses.deficit() * losses.lost.count_ones() / frames;
        let needed = self.losses.iter().map(needs).max().unwrap_or(0);
        (self.left, self.rounds) = (needed.min(frames - self.sent.len() as u32), self.rounds + 1);
    }

    /// No parity is sent any more for now.
    pub(super) fn stop(&mut self) {
        self.left = 0;
    }

    /// The stamp of the last parity frame.
    pub(super) fn last_sent(&self) -> Option<Stamp> {
        self.sent.last().copied()
    }

    /// When somebody first said that the last frame of it has come.
    pub(super) fn heard_at(&self) -> Option<Instant> {
        self.heard_at
    }

    /// Somebody says now that the last frame of it has come.
    pub(super) fn hear(&mut self, now: Instant) {
        self.heard_at.get_or_insert(now);
    }

    /// The next parity frame is sent under this stamp: its number, and whether it is the last for now.
    pub(super) fn send(&mut self, stamp: Stamp) -> (u8, bool) {
        let index = self.sent.len() as u8;
        self.sent.push(stamp);
        self.heard_at = None;
        self.losses.iter_mut().for_each(|losses| losses.covered += 1);
        self.left = self.left.saturating_sub(1);
        (index, !self.is_going())
    }

    /// No parity is sent any more for now if nobody has lost anything.
    fn rest(&mut self) {
        if self.losses.is_empty() {
            self.stop();
        }
    }

    /// What `rank` has lost is sent to it as it was.
    pub(super) fn forget(&mut self, rank: Rank) {
        self.losses.retain(|losses| losses.rank != rank);
    }
}

/// The blocks of a cast.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    /// The length of a block, in frames; 1 if there are none.
    block_frames: u64,
    /// In rising order.
    blocks: Vec<Block>,
    /// So much later than a block's last frame everybody has told what was lost of it.
    settled_after: Duration,
    /// And so much later than one of them has told that it has come.
    told_after: Duration,
}

impl Blocks {
    /// Blocks of so many frames, a power of two of at most 128; none if there are to be no blocks.
    pub(super) fn new(block_frames: Option<u64>) -> Blocks {
        let (settled_after, told_after) = (Duration::ZERO, Duration::ZERO);
        Blocks { block_frames: block_frames.unwrap_or(1), blocks: Vec::new(), settled_after, told_after }
    }

    /// The length of a block, in frames; 1 if there are none.
    pub(super) fn block_frames(&self) -> u64 {
        self.block_frames
    }

    /// The block of a frame, if there are blocks.
    pub(super) fn frames_of(&self, sequence: u64) -> Option<Range<u64>> {
        let first = sequence - sequence % self.block_frames;
        (self.block_frames > 1).then_some(first..first + self.block_frames)
    }

    fn find(&self, sequence: u64) -> Option<&Block> {
        let at = self.blocks.partition_point(|block| block.frames.end <= sequence);
        self.blocks.get(at).filter(|block| block.frames.contains(&sequence))
    }

    /// The stamp of the first parity frame of the block of frame `sequence`.
    pub(super) fn first_sent(&self, sequence: u64) -> Option<Stamp> {
        self.find(sequence)?.sent.first().copied()
    }

    /// Whether `rank` is known to have lost frame `sequence`.
    pub(super) fn knows(&self, rank: Rank, sequence: u64) -> bool {
        self.find(sequence).is_some_and(|block| {
            let bit = 1 << (sequence - block.frames.start);
            block.losses.iter().any(|losses| losses.rank == rank && losses.lost & bit != 0)
        })
    }

    /// Those with something to send, and all others.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter()
    }

    /// Those with something to send, and all others.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        self.blocks.iter_mut()
    }

    /// So much later than a block's last frame everybody has told what was lost of it.
    pub(super) fn settled_after(&self) -> Duration {
        self.settled_after
    }

    /// No parity is sent any more for now.
    pub(super) fn stop(&mut self) {
        self.blocks.iter_mut().for_each(Block::stop);
    }

    /// So much later than one has told that the last frame has come all others have, if nothing was queued behind it.
    pub(super) fn told_after(&self) -> Duration {
        self.told_after
    }

    /// All that is known of somebody's losses has been noted: everybody has told so much later than a block's last
    /// frame, and so much later than the first has told of it.
    pub(super) fn noted(&mut self, settled_after: Duration, told_after: Duration) {
        (self.settled_after, self.told_after) = (settled_after, told_after);
        self.rest();
    }

    fn rest(&mut self) {
        self.blocks.iter_mut().for_each(Block::rest);
    }

    /// What has arrived at `rank` is not lost any more.
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

    /// `rank` has gone.
    pub(super) fn remove(&mut self, rank: Rank) {
        self.forget_rank(rank);
        self.rest();
    }

    /// Nothing is known any more of what `rank` has lost.
    pub(super) fn forget_rank(&mut self, rank: Rank) {
        self.blocks.iter_mut().for_each(|block| block.forget(rank));
    }

    /// `rank` has lost what is `found`, in rising order, and nothing else; of the parity of each block `is_coming` says
    /// what is on its way to it.
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

    /// `rank` has lost frame `sequence`; of the parity of its block `is_coming` says what is on its way to it.
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

    /// Frame `sequence` has been sent again to one, or to all.
    pub(super) fn repeated(&mut self, sequence: u64, to: Option<Rank>) {
        if let Some(block) = self.blocks.iter_mut().find(|block| block.frames.contains(&sequence)) {
            let bit = 1 << (sequence - block.frames.start);
            let reached = |losses: &&mut Losses| to.is_none_or(|rank| losses.rank == rank);
            block.losses.iter_mut().filter(reached).for_each(|losses| losses.lost &= !bit);
            block.losses.retain(|losses| losses.lost != 0);
            block.rest();
        }
    }

    /// Frames below `tail` are not kept any more.
    pub(super) fn forget_below(&mut self, tail: u64) {
        let gone = self.blocks.partition_point(|block| block.frames.end <= tail);
        self.blocks.drain(..gone);
    }

    /// Bytes of the stamps of what was sent.
    pub(super) fn stamps_bytes(&self) -> usize {
        let sent: usize = self.blocks.iter().map(|block| block.sent.capacity()).sum();
        sent * size_of::<Stamp>() + self.blocks.capacity() * size_of::<Block>()
    }

    /// Bytes of what is known to be lost.
    pub(super) fn losses_bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.losses.capacity() * size_of::<Losses>()).sum()
    }
}

/// How many of the last frames that were sent are on their way.
fn coming(sent: &[Stamp], is_coming: impl Fn(Stamp) -> bool) -> u32 {
    sent.iter().rev().take_while(|stamp| is_coming(**stamp)).count() as u32
}
