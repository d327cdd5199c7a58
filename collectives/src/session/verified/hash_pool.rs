//! Hashing of the chunks of a span, by one thread or several.

use super::hash::ChunkHash;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// Hashes several chunks, in sequence or in parallel.
pub trait HashPool: Debug + Send + Sync {
    /// Returns `hash` of each of these chunks, in order.
    fn hash_all(&self, chunks: Range<usize>, hash: &(dyn Fn(usize) -> ChunkHash + Sync)) -> Vec<ChunkHash>;
}

/// Hashes one chunk after the other on the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl HashPool for Alone {
    fn hash_all(&self, chunks: Range<usize>, hash: &(dyn Fn(usize) -> ChunkHash + Sync)) -> Vec<ChunkHash> {
        chunks.map(hash).collect()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Hashing(Arc<dyn HashPool>);

impl Default for Hashing {
    fn default() -> Hashing {
        Hashing(Arc::new(Alone))
    }
}

impl Hashing {
    pub(super) fn by(crew: Arc<dyn HashPool>) -> Hashing {
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
