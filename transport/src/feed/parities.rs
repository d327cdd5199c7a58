//! Parity frames that wait for more of their block: each lies in the slot of a frame of it that is missing.
//!
//! So they take no memory of their own, and a stranger's can fill none: a block never holds as many as it lacks frames.
//! As soon as it would, the missing frames come back.

use super::{Feed, Inserted};
use crate::parity::{self, Held, LEAST_FRAMES, MOST_FRAMES};
use std::ops::Range;

/// A block of which frames are missing and parity frames are there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    frames: Range<u64>,
    held: Vec<Held>,
}

/// All such blocks, in rising order.
#[derive(Clone, Debug, Default)]
pub(super) struct Parities {
    blocks: Vec<Block>,
}

impl Parities {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Nothing is held any more of blocks that do not fit.
    pub(super) fn retain(&mut self, fits: impl Fn(&Range<u64>) -> bool) {
        self.blocks.retain(|block| fits(&block.frames));
    }

    fn find(&self, sequence: u64) -> Option<usize> {
        self.blocks.iter().position(|block| block.frames.contains(&sequence))
    }

    /// Where parity frames lie, and which they are, for who compares feeds.
    pub(super) fn places(&self) -> Vec<(u64, u8)> {
        let places = |block: &Block| {
            let first = block.frames.start;
            block.held.iter().map(move |held| (first + u64::from(held.place), held.index)).collect::<Vec<_>>()
        };
        self.blocks.iter().flat_map(places).collect()
    }

    /// Holds one more parity frame of `frames`, whose block is the one `at` or none yet.
    fn hold(&mut self, at: Option<usize>, frames: Range<u64>, held: Held) {
        match at {
            Some(at) => self.blocks[at].held.push(held),
            None => {
                let at = self.blocks.partition_point(|block| block.frames.start < frames.start);
                self.blocks.insert(at, Block { frames, held: vec![held] });
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let held: usize = self.blocks.iter().map(|block| block.held.capacity()).sum();
        self.blocks.capacity() * size_of::<Block>() + held * size_of::<Held>()
    }
}

impl Feed {
    /// Whether `frames` are all here, freed or not, full, and none the last: then parity of them can be sent.
    pub(crate) fn is_full_block(&self, frames: &Range<u64>) -> bool {
        frames.end <= self.head() && self.may_be_block(frames) && frames.clone().all(|sequence| self.is_full(sequence))
    }

    /// Writes parity frame `index` of a [full block](Feed::is_full_block).
    pub(crate) fn write_parity(&self, frames: &Range<u64>, index: u8, parity: &mut [u8]) {
        let payload = |place: usize| &self.bytes[self.start(frames.start + place as u64)..][..self.payload_bytes];
        parity::write(index, (frames.end - frames.start) as usize, payload, parity);
    }

    /// Takes parity frame `index` of `frames`, whose payload is as long as a slot. If it is the last that was needed,
    /// [`recover`](Feed::recover) is to be called.
    pub(crate) fn insert_parity(&mut self, frames: Range<u64>, index: u8, parity: &[u8]) -> Inserted {
        let count = frames.end - frames.start;
        if frames.end > self.limit() {
            return Inserted::Beyond;
        }
        let is_missing = |sequence: &u64| !self.has(*sequence);
        let missing: Vec<u64> = frames.clone().filter(is_missing).collect();
        if missing.is_empty() {
            return Inserted::Duplicate;
        }
        let present = || frames.clone().filter(|&sequence| self.has(sequence));
        let is_block = count.is_power_of_two()
            && (LEAST_FRAMES as u64..=MOST_FRAMES as u64).contains(&count)
            && frames.start.is_multiple_of(count)
            && u64::from(index) < count
            && parity.len() == self.payload_bytes;
        // Blocks are of one length: others that overlap them would be in their places.
        let fits = self.parities.blocks.first().is_none_or(|block| block.frames.end - block.frames.start == count);
        if !is_block || !fits || !self.may_be_block(&frames) || !present().all(|sequence| self.is_full(sequence)) {
            return Inserted::Refused;
        }
        let at = self.parities.find(frames.start);
        let held = at.map_or(&[][..], |at| &self.parities.blocks[at].held);
        if held.iter().any(|held| held.index == index) {
            return Inserted::Duplicate;
        }
        let is_free = |sequence: &&u64| held.iter().all(|held| frames.start + u64::from(held.place) != **sequence);
        let Some(&free) = missing.iter().find(is_free) else { return Inserted::Duplicate };
        let start = self.start(free);
        self.bytes[start..][..parity.len()].copy_from_slice(parity);
        let held = Held { place: (free - frames.start) as u8, index };
        self.parities.hold(at, frames, held);
        Inserted::New
    }

    /// Brings back the missing frames of the block of `sequence`, if as many parity frames as that are held: their
    /// numbers, in rising order.
    pub(crate) fn recover(&mut self, sequence: u64) -> Vec<u64> {
        let Some(at) = self.parities.find(sequence) else { return Vec::new() };
        let frames = self.parities.blocks[at].frames.clone();
        let missing: Vec<u64> = frames.clone().filter(|&sequence| !self.has(sequence)).collect();
        if self.parities.blocks[at].held.len() < missing.len() {
            return Vec::new();
        }
        let held = self.parities.blocks.remove(at).held;
        let starts: Vec<usize> = frames.map(|sequence| self.start(sequence)).collect();
        parity::recover(&mut self.bytes, &starts, self.payload_bytes, &held);
        missing.iter().for_each(|&sequence| self.note(sequence, self.payload_bytes));
        missing
    }

    /// Frame `sequence` of so many bytes is about to be stored. A parity frame in its place goes elsewhere; blocks go of
    /// which a frame would be lost with it, or which cannot be what they seemed.
    pub(super) fn make_way(&mut self, sequence: u64, bytes: usize, last: bool) {
        let (slots, full) = (self.slots(), bytes == self.payload_bytes && !last);
        self.parities.retain(|frames| sequence < frames.start + slots && (full || !frames.contains(&sequence)));
        let Some(at) = self.parities.find(sequence) else { return };
        let block = &self.parities.blocks[at];
        let first = block.frames.start;
        let in_place = |place: u64| block.held.iter().position(|held| u64::from(held.place) == place);
        let Some(moved) = in_place(sequence - first) else { return };
        let is_free = |other: &u64| *other != sequence && !self.has(*other) && in_place(other - first).is_none();
        match block.frames.clone().find(is_free) {
            Some(free) => {
                let (from, to) = (self.start(sequence), self.start(free));
                self.bytes.copy_within(from..from + self.payload_bytes, to);
                self.parities.blocks[at].held[moved].place = (free - first) as u8;
            }
            None => drop(self.parities.blocks[at].held.swap_remove(moved)),
        }
    }

    /// Marks in an acknowledgement's `bitmap`, of which `used` bytes are, as many of a block's missing frames as parity
    /// frames are held of it, the highest first: so many need not be sent. Returns the bytes used then.
    pub(super) fn write_held(&self, bitmap: &mut [u8], mut used: usize) -> usize {
        for block in &self.parities.blocks {
            let missing = block.frames.clone().rev().filter(|&sequence| !self.has(sequence));
            for bit in missing.take(block.held.len()).filter_map(|sequence| sequence.checked_sub(self.head() + 1)) {
                let byte = (bit / 8) as usize;
                if byte < bitmap.len() {
                    bitmap[used..].iter_mut().take((byte + 1).saturating_sub(used)).for_each(|byte| *byte = 0);
                    used = used.max(byte + 1);
                    bitmap[byte] |= 1 << (bit % 8);
                }
            }
        }
        used
    }

    /// Whether blocks hold what they may: less than they lack, each in the place of a missing frame.
    pub(super) fn parities_are_in_order(&self) -> bool {
        self.parities.blocks.iter().all(|block| {
            let missing = block.frames.clone().filter(|&sequence| !self.has(sequence)).count();
            let place = |held: &Held| block.frames.start + u64::from(held.place);
            let in_place = block.held.iter().all(|held| !self.has(place(held)));
            in_place && block.held.len() < missing && block.frames.end <= self.limit()
        })
    }

    /// Whether frames of `frames` that have been here still lie in their slots, and none can be the last.
    fn may_be_block(&self, frames: &Range<u64>) -> bool {
        let kept = frames.start >= self.base && self.written <= frames.start + self.slots();
        kept && self.expected_last().is_none_or(|last| frames.end <= last)
    }

    fn is_full(&self, sequence: u64) -> bool {
        self.lengths[(sequence & self.mask) as usize] as usize == self.payload_bytes
    }
}
