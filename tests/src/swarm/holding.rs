//! A receiver's holdings: a part of the content, an older version, or other bytes; and holdings
//! that differ from their announcement.

use super::application::Shelf;
use super::draw::Draw;
use super::schedule::Schedule;
use ethbcast_collectives::session::verified::{
    CHUNK_BYTES, ChunkSet, ChunkSize, Form, HaveSet, Origin, StretchLedger, StretchPlace,
};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The first chunks, as an interrupted run leaves them.
    Beginning(usize),
    /// Another version: one chunk in every `.0` differs, from chunk `.1` on.
    Older(usize, usize),
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldingTrouble {
    /// All chunks are announced as present.
    Lies,
    /// Bytes change after this number of reads.
    Changes(u64),
    /// Bytes are gone after this number of reads.
    Vanishes(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldingTerms {
    pub held: Held,
    pub trouble: Option<HoldingTrouble>,
}

impl HoldingTerms {
    pub fn draw(draw: &mut Draw, bytes: usize) -> HoldingTerms {
        let chunks = bytes.div_ceil(CHUNK_BYTES).max(1) as u64;
        let held = match draw.index(5) {
            0 => Held::Other,
            1 | 2 => Held::Beginning(draw.between(0, chunks) as usize),
            _ => Held::Older(draw.between(1, chunks + 1) as usize, draw.between(0, chunks) as usize),
        };
        HoldingTerms { held, trouble: None }
    }

    pub fn with_trouble(self, draw: &mut Draw) -> HoldingTerms {
        let reads = draw.between(0, 3);
        let troubles = [HoldingTrouble::Lies, HoldingTrouble::Changes(reads), HoldingTrouble::Vanishes(reads)];
        HoldingTerms { trouble: Some(draw.pick(&troubles)), ..self }
    }

    fn has(self, chunk: usize) -> bool {
        match self.held {
            Held::Beginning(chunks) => chunk < chunks,
            Held::Older(every, from) => chunk < from || !(chunk - from).is_multiple_of(every),
            Held::Other => false,
        }
    }

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

#[derive(Debug)]
pub struct Holding {
    terms: HoldingTerms,
    chunk: ChunkSize,
    bytes: Vec<u8>,
    content_bytes: u64,
    reads: AtomicU64,
    untrue: Arc<AtomicU64>,
}

impl Holding {
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

impl HaveSet for Holding {
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
        // A damaged unit is marked by its first byte, unless it is missing altogether.
        let mut told = (offset as usize).div_ceil(CHUNK_BYTES)..(offset as usize + to.len()).div_ceil(CHUNK_BYTES);
        let lies = told.any(|unit| !self.terms.has(unit)) || self.at(offset, to.len()).is_none();
        self.untrue.fetch_add(u64::from(changed || gone || lies), Ordering::Relaxed);
        to.copy_from_slice(self.at(offset, to.len()).filter(|_| !gone)?);
        to[0] ^= u8::from(changed);
        Some(Origin::InPlace)
    }
}
