//! Have-set of a receiver: what it already holds of a content that is about to come.

use super::{ChunkSet, StretchLedger};
use crate::session::ContentKind;
use crate::session::verified::ChunkSize;

/// Description of the content for a receiver that may hold part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldContent {
    /// Name at the sender.
    pub source: String,
    /// Size in bytes.
    pub size: u64,
    /// Kind of the content.
    pub content: ContentKind,
    /// Size of its chunks.
    pub chunk: ChunkSize,
}

/// Place at which a chunk was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Its own place: it need not be written.
    InPlace,
    /// Another place.
    Elsewhere,
}

/// Content that a receiver already holds: part of it from an interrupted run, or a similar file (a
/// basis). Two threads use it at a time.
pub trait HaveSet: std::fmt::Debug + Send + Sync {
    /// Begins the session. Data that cannot be part of this content is not used.
    fn begin(&self, _offer: &HeldContent) {}

    /// Returns the chunks of a stretch that are here, as their bytes hash now. May block on the
    /// disk.
    fn have(&self, ledger: &StretchLedger) -> ChunkSet;

    /// Reads a chunk of a stretch that [`have`](HaveSet::have) has returned; `to` has its length.
    /// `None` if it is no longer here. The bytes are verified again.
    fn read(&self, stretch: u64, chunk: usize, to: &mut [u8]) -> Option<Origin>;

    /// Forgets the stretches below this one, which are all in place.
    fn forget_below(&self, _stretch: u64) {}
}
