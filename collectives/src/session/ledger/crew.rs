//! Who hashes the chunks of a span.

use super::hash::ChunkHash;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// Hashes several chunks, one after the other or side by side.
pub trait Crew: Debug + Send + Sync {
    /// What `hash` says of each of these chunks, in their order.
    fn hash_all(&self, chunks: Range<usize>, hash: &(dyn Fn(usize) -> ChunkHash + Sync)) -> Vec<ChunkHash>;
}

/// One chunk after the other, by whoever asks.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Crew for Alone {
    fn hash_all(&self, chunks: Range<usize>, hash: &(dyn Fn(usize) -> ChunkHash + Sync)) -> Vec<ChunkHash> {
        chunks.map(hash).collect()
    }
}

/// A crew that several share.
#[derive(Clone, Debug)]
pub(super) struct Hashing(Arc<dyn Crew>);

impl Default for Hashing {
    fn default() -> Hashing {
        Hashing(Arc::new(Alone))
    }
}

impl Hashing {
    pub(super) fn by(crew: Arc<dyn Crew>) -> Hashing {
        Hashing(crew)
    }

    pub(super) fn hash_all(
        &self,
        chunks: Range<usize>,
        hash: impl Fn(usize) -> ChunkHash + Sync,
    ) -> impl Iterator<Item = ChunkHash> {
        self.0.hash_all(chunks, &hash).into_iter()
    }
}
