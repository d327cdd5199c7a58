//! Threads at a sender: one reads the content, another hashes it and adds the hash lists.

use super::report::Error;
use crate::keys::ContentCipher;
use crate::session::message::Trailer;
use crate::session::verified::{Alone, ChunkHash, ChunkSize, Encoder, HashPool, SpanBuffer};
use crossbeam_channel::{Receiver, Sender, bounded};
use crossbeam_queue::ArrayQueue;
use ethbcast_transport::packet::Waker;
use rayon_core::{ThreadPool, ThreadPoolBuilder};
use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::sync::{Arc, LazyLock};
use std::{process, thread};

const SPANS_UNHASHED: usize = 1;

#[derive(Debug)]
pub(super) enum ReadProgress {
    Span(SpanBuffer),
    End(Trailer),
    Failed(Error),
}

/// Reader of a content, to be [run](Reader::run) on a thread.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    what: String,
    size: Option<u64>,
    chunk: ChunkSize,
    progress: Sender<ReadProgress>,
    used: Arc<ArrayQueue<SpanBuffer>>,
    waker: Arc<Waker>,
    /// Brings the cipher of the content when the session begins.
    cipher: Receiver<ContentCipher>,
}

impl<R: Read> Reader<R> {
    pub(super) fn new(
        (input, what, size): (R, String, Option<u64>),
        chunk: ChunkSize,
        progress: Sender<ReadProgress>,
        used: Arc<ArrayQueue<SpanBuffer>>,
        (waker, cipher): (Arc<Waker>, Receiver<ContentCipher>),
    ) -> Reader<R> {
        Reader {
            input,
            what,
            size,
            chunk,
            progress,
            used,
            waker,
            cipher,
        }
    }

    /// Reads until the end, an error, or the end of the session.
    pub fn run(self) {
        let Reader {
            mut input,
            what,
            size,
            chunk,
            progress,
            used,
            waker,
            cipher,
        } = self;
        // A source that is asked before it has one has none.
        let cipher = cipher.recv().unwrap_or_default();
        let chunk = chunk.signed(cipher.is_keyed());
        let encoder = Encoder::new(chunk).hashed_by(hashers()).ciphered(cipher);
        let (to_hasher, filled) = bounded(SPANS_UNHASHED);
        let (failed, woken) = (progress.clone(), Arc::clone(&waker));
        thread::scope(|scope| {
            let hasher = Hasher {
                what,
                size,
                encoder,
                progress,
                waker,
            };
            let started = thread::Builder::new().name("hasher".to_owned());
            if let Err(error) = started.spawn_scoped(scope, move || hasher.run(&filled)) {
                drop(failed.send(ReadProgress::Failed(Error::Resources(error))));
                return woken.wake();
            }
            // Dropped, so that the consumer learns when this thread ends, even by a panic.
            drop(failed);
            loop {
                let mut span = SpanBuffer::empty(chunk, used.pop().unwrap_or_default());
                let result = fill(&mut input, &mut span);
                let more = result.is_ok() && span.content_bytes() > 0;
                // The other end is gone once the session is over.
                if to_hasher.send((span, result)).is_err() || !more {
                    return;
                }
            }
        });
    }
}

struct Hasher {
    what: String,
    size: Option<u64>,
    encoder: Encoder,
    progress: Sender<ReadProgress>,
    waker: Arc<Waker>,
}

impl Hasher {
    fn run(mut self, spans: &Receiver<(SpanBuffer, io::Result<()>)>) {
        for (mut span, filled) in spans {
            let bytes = self.encoder.content_bytes() + span.content_bytes() as u64;
            let progress = match filled {
                Err(cause) => ReadProgress::Failed(Error::Read {
                    what: self.what.clone(),
                    bytes,
                    cause,
                }),
                // Receivers take nothing beyond the announced size.
                Ok(()) if self.size.is_some_and(|size| bytes > size) => {
                    ReadProgress::Failed(self.changed(bytes))
                }
                Ok(()) if span.content_bytes() == 0 => self.end(),
                Ok(()) => {
                    self.encoder.seal(&mut span);
                    ReadProgress::Span(span)
                }
            };
            let more = matches!(progress, ReadProgress::Span(_));
            let wanted = self.progress.send(progress).is_ok();
            self.waker.wake();
            if !(more && wanted) {
                return;
            }
        }
    }

    fn end(&self) -> ReadProgress {
        let read = self.encoder.content_bytes();
        let changed = self.size.is_some_and(|size| size != read);
        if changed {
            ReadProgress::Failed(self.changed(read))
        } else {
            ReadProgress::End(self.encoder.trailer())
        }
    }

    fn changed(&self, read: u64) -> Error {
        Error::SizeChanged {
            what: self.what.clone(),
            announced: self.size.unwrap_or_default(),
            read,
        }
    }
}

fn fill(input: &mut impl Read, span: &mut SpanBuffer) -> io::Result<()> {
    while !span.is_full() {
        match input.read(span.room()) {
            Ok(0) => break,
            Ok(count) => span.filled(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Processors that a session needs for its frames and its reader or writer.
const OWN_PROCESSORS: usize = 2;
/// Maximum number of hashing threads: one hashes 3 to 6 GB/s, and more are limited by memory.
const MAX_THREADS: usize = 4;

/// Threads shared by all sessions of a process, with the id of that process.
static SHARED: LazyLock<(u32, Arc<dyn HashPool>)> = LazyLock::new(|| {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    (
        process::id(),
        Hashers::of_threads(processors.saturating_sub(OWN_PROCESSORS).min(MAX_THREADS)),
    )
});

/// Returns the hashing threads of this process, one per free processor; hashes inline if fewer than
/// 2 are free. A forked child does not have its parent's threads.
pub(super) fn hashers() -> Arc<dyn HashPool> {
    let (process, hash_pool) = &*SHARED;
    if *process == process::id() {
        Arc::clone(hash_pool)
    } else {
        Arc::new(Alone)
    }
}

/// Hashing threads. 1 MiB takes four of rayon-core 189 µs on two processors, four of
/// `thread::scope` 513 µs, and a pool of `std`'s threads 204 µs, which cannot borrow the bytes
/// without unsafe code.
#[derive(Debug)]
pub(super) struct Hashers(ThreadPool);

impl Hashers {
    /// Starts a pool of `threads`; hashes inline if fewer than 2 or if it cannot start.
    pub(super) fn of_threads(threads: usize) -> Arc<dyn HashPool> {
        let named = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|number| format!("hasher {number}"));
        match if threads < 2 {
            None
        } else {
            named.build().ok()
        } {
            Some(pool) => Arc::new(Hashers(pool)),
            None => Arc::new(Alone),
        }
    }
}

impl HashPool for Hashers {
    fn hash_all(
        &self,
        chunks: Range<usize>,
        hash: &(dyn Fn(usize) -> ChunkHash + Sync),
    ) -> Vec<ChunkHash> {
        if chunks.len() < 2 {
            Alone.hash_all(chunks, hash)
        } else {
            self.0.install(|| side_by_side(chunks, hash))
        }
    }
}

fn side_by_side(
    chunks: Range<usize>,
    hash: &(dyn Fn(usize) -> ChunkHash + Sync),
) -> Vec<ChunkHash> {
    if chunks.len() < 2 {
        return Alone.hash_all(chunks, hash);
    }
    let middle = chunks.start.midpoint(chunks.end);
    let halves = (chunks.start..middle, middle..chunks.end);
    let (mut first, second) = rayon_core::join(
        || side_by_side(halves.0, hash),
        || side_by_side(halves.1, hash),
    );
    first.extend(second);
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::verified::{ChunkSize, Decoder, Encoder, SPAN_BYTES, SpanBuffer, encoded};

    #[test]
    fn side_by_side_the_same_comes_of_it_and_the_same_damage_is_found() {
        let content: Vec<u8> = (0..3 * SPAN_BYTES as u32 + 200_000)
            .map(|at| (at >> 7) as u8)
            .collect();
        let (alone, trailer) = encoded(&content);
        for threads in [0, 1, 2, 3, 7] {
            let hash_pool = Hashers::of_threads(threads);
            let mut encoder = Encoder::new(ChunkSize::DEFAULT).hashed_by(Arc::clone(&hash_pool));
            let mut stream = Vec::new();
            for part in content.chunks(SPAN_BYTES) {
                let mut span = SpanBuffer::empty(ChunkSize::DEFAULT, SpanBuffer::default());
                span.room()[..part.len()].copy_from_slice(part);
                span.filled(part.len());
                encoder.seal(&mut span);
                stream.extend_from_slice(span.as_bytes());
            }
            assert!(
                stream == alone && encoder.trailer() == trailer,
                "{threads} threads"
            );
            let mut decoder = Decoder::new(ChunkSize::DEFAULT).hashed_by(hash_pool);
            for (number, span) in alone.chunks(ChunkSize::DEFAULT.whole_bytes()).enumerate() {
                let mut span = span.to_vec();
                // Two chunks of each: the first is wanted, then the second.
                let (first, second) = (10_000 + number, span.len() - 10);
                [first, second].into_iter().for_each(|at| span[at] ^= 1);
                decoder.take(span);
                for at in [first, second] {
                    let wanted = decoder.wanted().expect("damaged");
                    let begin = number * ChunkSize::DEFAULT.whole_bytes();
                    assert!(
                        wanted.contains(&((begin + at) as u64)),
                        "{threads} threads: {wanted:?} for {at}"
                    );
                    decoder.supply(
                        wanted.start,
                        &alone[wanted.start as usize..wanted.end as usize],
                    );
                }
                assert!(decoder.poll().is_some() && decoder.failed().is_none());
            }
            assert_eq!(decoder.trailer(), trailer);
        }
    }
}
