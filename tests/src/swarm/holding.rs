//! What a receiver has already of what is about to come: a part of it, an older version, something else; and holdings
//! that are not what they were.

use super::application::Shelf;
use super::draw::Draw;
use super::schedule::Schedule;
use ethbcast_collectives::session::ledger::{
    CHUNK_BYTES, ChunkSet, ChunkSize, Form, Holdings, Origin, StretchLedger, StretchPlace,
};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a host has when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Its first chunks, as a run that was cut off leaves them.
    Beginning(usize),
    /// Another version, in which of every so many chunks one is different, from some one on.
    Older(usize, usize),
    /// Something else.
    Other,
}

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldingTrouble {
    /// All of it is said to be there.
    Lies,
    /// After so many reads its bytes are others.
    Changes(u64),
    /// After so many reads it is gone.
    Vanishes(u64),
}

/// What a host has, and how far that can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldingTerms {
    /// What it has.
    pub held: Held,
    /// What is wrong with that.
    pub trouble: Option<HoldingTrouble>,
}

impl HoldingTerms {
    /// Of a content of so many bytes.
    pub fn draw(draw: &mut Draw, bytes: usize) -> HoldingTerms {
        let chunks = bytes.div_ceil(CHUNK_BYTES).max(1) as u64;
        let held = match draw.index(5) {
            0 => Held::Other,
            1 | 2 => Held::Beginning(draw.between(0, chunks) as usize),
            _ => Held::Older(draw.between(1, chunks + 1) as usize, draw.between(0, chunks) as usize),
        };
        HoldingTerms { held, trouble: None }
    }

    /// The same with something wrong.
    pub fn with_trouble(self, draw: &mut Draw) -> HoldingTerms {
        let reads = draw.between(0, 3);
        let troubles = [HoldingTrouble::Lies, HoldingTrouble::Changes(reads), HoldingTrouble::Vanishes(reads)];
        HoldingTerms { trouble: Some(draw.pick(&troubles)), ..self }
    }

    /// Whether 64 KiB of the content are there, and right.
    fn has(self, chunk: usize) -> bool {
        match self.held {
            Held::Beginning(chunks) => chunk < chunks,
            Held::Older(every, from) => chunk < from || !(chunk - from).is_multiple_of(every),
            Held::Other => false,
        }
    }

    /// What it has of `content`.
    fn bytes(self, content: &[u8]) -> Vec<u8> {
        let mut bytes = content.to_vec();
        for chunk in (0..content.len().div_ceil(CHUNK_BYTES)).filter(|&chunk| !self.has(chunk)) {
            bytes[chunk * CHUNK_BYTES] ^= 1;
        }
        if let Held::Beginning(chunks) = self.held {
            bytes.truncate(chunks * CHUNK_BYTES);
        }
        bytes
    }
}

impl Schedule {
    /// Lets some of the receivers have some of the content: of chunks there are a few then.
    pub fn hold(&mut self, draw: &mut Draw) {
        if self.selects {
            return;
        }
        (self.selects, self.form, self.pipe, self.sized, self.mtu_bytes) = (true, Form::LEDGERED, false, true, 1500);
        let most = self.cluster.slowest() as usize / 8 / self.hosts().min(8);
        self.set_bytes((draw.log(1, 6 * CHUNK_BYTES as u64) as usize).min(most));
        let share = draw.pick(&[0.3, 0.7, 1.0]);
        let bytes = self.bytes;
        let mut holds = |host: usize| (host > 0 && draw.chance(share)).then(|| HoldingTerms::draw(draw, bytes));
        self.holdings = (0..self.disks.len()).map(&mut holds).collect();
    }
}

/// See [`HoldingTerms`].
#[derive(Debug)]
pub struct Holding {
    terms: HoldingTerms,
    chunk: ChunkSize,
    bytes: Vec<u8>,
    content_bytes: u64,
    reads: AtomicU64,
    /// Reads that gave something else than had been said.
    untrue: Arc<AtomicU64>,
}

impl Holding {
    /// What a host has of `content`, whose chunks are so long; its shelf is told of reads that give something else than
    /// was said.
    pub fn new((terms, chunk): (HoldingTerms, ChunkSize), content: &[u8], shelf: &Rc<Shelf>) -> Holding {
        Holding {
            terms,
            chunk,
            bytes: terms.bytes(content),
            content_bytes: content.len() as u64,
            reads: AtomicU64::new(0),
            untrue: Arc::clone(&shelf.untrue),
        }
    }

    fn at(&self, offset: u64, bytes: usize) -> Option<&[u8]> {
        self.bytes.get(offset as usize..offset as usize + bytes)
    }
}

impl Holdings for Holding {
    fn have(&self, ledger: &StretchLedger) -> ChunkSet {
        let is_here = |&chunk: &usize| {
            let here = self.at(ledger.chunk_offset(chunk), ledger.chunk_bytes(chunk));
            self.terms.trouble == Some(HoldingTrouble::Lies) || here.is_some_and(|bytes| ledger.matches(chunk, bytes))
        };
        (0..ledger.chunks()).filter(is_here).collect()
    }

    fn read(&self, stretch: u64, chunk: usize, to: &mut [u8]) -> Option<Origin> {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        let changed = matches!(self.terms.trouble, Some(HoldingTrouble::Changes(after)) if reads >= after);
        let gone = matches!(self.terms.trouble, Some(HoldingTrouble::Vanishes(after)) if reads >= after);
        let offset = StretchPlace::of(self.chunk, stretch, self.content_bytes)?.chunk_offset(chunk);
        // The first byte of what is not as it should be says so, unless it is not there at all.
        let mut told = (offset as usize).div_ceil(CHUNK_BYTES)..(offset as usize + to.len()).div_ceil(CHUNK_BYTES);
        let lies = told.any(|unit| !self.terms.has(unit)) || self.at(offset, to.len()).is_none();
        self.untrue.fetch_add(u64::from(changed || gone || lies), Ordering::Relaxed);
        to.copy_from_slice(self.at(offset, to.len()).filter(|_| !gone)?);
        to[0] ^= u8::from(changed);
        Some(Origin::InPlace)
    }
}
