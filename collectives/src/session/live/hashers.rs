//! Threads that hash the chunks of a span in parallel, on otherwise idle processors.

use crate::session::verified::{Alone, ChunkHash, HashPool};
use rayon_core::{ThreadPool, ThreadPoolBuilder};
use std::ops::Range;
use std::sync::{Arc, LazyLock};
use std::{process, thread};

/// Processors that a session needs for its frames and its reader or writer.
const OWN_PROCESSORS: usize = 2;
/// Maximum number of hashing threads: one hashes 3 to 6 GB/s, and more are limited by memory.
const MAX_THREADS: usize = 4;

/// Threads shared by all sessions of a process, with the id of that process.
static SHARED: LazyLock<(u32, Arc<dyn HashPool>)> = LazyLock::new(|| {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    (process::id(), Hashers::of_threads(processors.saturating_sub(OWN_PROCESSORS).min(MAX_THREADS)))
});

/// Returns the hashing threads of this process, one per free processor; hashes inline if fewer than
/// 2 are free. A forked child does not have its parent's threads.
pub(super) fn hashers() -> Arc<dyn HashPool> {
    let (process, crew) = &*SHARED;
    if *process == process::id() { Arc::clone(crew) } else { Arc::new(Alone) }
}

#[derive(Debug)]
pub(super) struct Hashers(ThreadPool);

impl Hashers {
    /// Starts a pool of `threads`; hashes inline if fewer than 2 or if it cannot start.
    pub(super) fn of_threads(threads: usize) -> Arc<dyn HashPool> {
        let named = ThreadPoolBuilder::new().num_threads(threads).thread_name(|number| format!("hasher {number}"));
        match if threads < 2 { None } else { named.build().ok() } {
            Some(pool) => Arc::new(Hashers(pool)),
            None => Arc::new(Alone),
        }
    }
}

impl HashPool for Hashers {
    fn hash_all(&self, chunks: Range<usize>, hash: &(dyn Fn(usize) -> ChunkHash + Sync)) -> Vec<ChunkHash> {
        if chunks.len() < 2 { Alone.hash_all(chunks, hash) } else { self.0.install(|| side_by_side(chunks, hash)) }
    }
}

fn side_by_side(chunks: Range<usize>, hash: &(dyn Fn(usize) -> ChunkHash + Sync)) -> Vec<ChunkHash> {
    if chunks.len() < 2 {
        return Alone.hash_all(chunks, hash);
    }
    let middle = chunks.start.midpoint(chunks.end);
    let halves = (chunks.start..middle, middle..chunks.end);
    let (mut first, second) = rayon_core::join(|| side_by_side(halves.0, hash), || side_by_side(halves.1, hash));
    first.extend(second);
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::verified::{ChunkSize, Decoder, Encoder, SPAN_BYTES, SpanBuffer, encoded};

    #[test]
    fn side_by_side_the_same_comes_of_it_and_the_same_damage_is_found() {
        let content: Vec<u8> = (0..3 * SPAN_BYTES as u32 + 200_000).map(|at| (at >> 7) as u8).collect();
        let (alone, trailer) = encoded(&content);
        for threads in [0, 1, 2, 3, 7] {
            let crew = Hashers::of_threads(threads);
            let mut encoder = Encoder::new(ChunkSize::DEFAULT).hashed_by(Arc::clone(&crew));
            let mut stream = Vec::new();
            for part in content.chunks(SPAN_BYTES) {
                let mut span = SpanBuffer::empty(ChunkSize::DEFAULT, SpanBuffer::default());
                span.room()[..part.len()].copy_from_slice(part);
                span.filled(part.len());
                encoder.seal(&mut span);
                stream.extend_from_slice(span.as_bytes());
            }
            assert!(stream == alone && encoder.trailer() == trailer, "{threads} threads");
            let mut decoder = Decoder::new(ChunkSize::DEFAULT).hashed_by(crew);
            for (number, span) in alone.chunks(ChunkSize::DEFAULT.whole_bytes()).enumerate() {
                let mut span = span.to_vec();
                // Two chunks of each: the first is wanted, then the second.
                let (first, second) = (10_000 + number, span.len() - 10);
                [first, second].into_iter().for_each(|at| span[at] ^= 1);
                decoder.take(span);
                for at in [first, second] {
                    let wanted = decoder.wanted().expect("damaged");
                    let begin = number * ChunkSize::DEFAULT.whole_bytes();
                    assert!(wanted.contains(&((begin + at) as u64)), "{threads} threads: {wanted:?} for {at}");
                    decoder.supply(wanted.start, &alone[wanted.start as usize..wanted.end as usize]);
                }
                assert!(decoder.poll().is_some() && decoder.failed().is_none());
            }
            assert_eq!(decoder.trailer(), trailer);
        }
    }
}
