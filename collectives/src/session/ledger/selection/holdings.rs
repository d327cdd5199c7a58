//! What a receiver has already of a content that is about to come.

use super::{ChunkSet, StretchLedger};
use crate::session::ContentKind;
use crate::session::ledger::ChunkSize;

/// What is offered to somebody who may have some of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldOffer {
    /// Its name at the sender.
    pub source: String,
    /// Its bytes.
    pub size: u64,
    /// What they are.
    pub content: ContentKind,
    /// How long its chunks are.
    pub chunk: ChunkSize,
}

/// Where a chunk was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Where it is to be: it need not be written.
    InPlace,
    /// Elsewhere.
    Elsewhere,
}

/// What a receiver has already of a content that is about to come: a part of it from a run that was cut off, or
/// something like it. Two threads use it at a time.
pub trait Holdings: std::fmt::Debug + Send + Sync {
    /// The session has begun. What cannot be a part of this content is not used.
    fn begin(&self, _offer: &HeldOffer) {}

    /// Which chunks of a stretch are here, as their bytes hash now. May take as long as the disk does.
    fn have(&self, ledger: &StretchLedger) -> ChunkSet;

    /// Reads a chunk of a stretch of which [`have`](Holdings::have) has said that it is here; `to` has its length. None
    /// if it is not any more. What is read is checked again.
    fn read(&self, stretch: u64, chunk: usize, to: &mut [u8]) -> Option<Origin>;

    /// All of the stretches below this one is where it belongs.
    fn forget_below(&self, _stretch: u64) {}
}
