//! Reader of a content on a thread of its own; a second thread hashes the spans and adds the hash
//! lists.

use super::Error;
use super::hashers::hashers;
use crate::session::Trailer;
use crate::session::verified::{ChunkSize, Encoder, SpanBuffer};
use crossbeam_channel::{Receiver, Sender, bounded};
use crossbeam_queue::ArrayQueue;
use ethbcast_transport::packet::Waker;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::thread;

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
}

impl<R: Read> Reader<R> {
    pub(super) fn new(
        (input, what, size): (R, String, Option<u64>),
        chunk: ChunkSize,
        progress: Sender<ReadProgress>,
        used: Arc<ArrayQueue<SpanBuffer>>,
        waker: Arc<Waker>,
    ) -> Reader<R> {
        Reader { input, what, size, chunk, progress, used, waker }
    }

    /// Reads until the end, an error, or the end of the session.
    pub fn run(self) {
        let Reader { mut input, what, size, chunk, progress, used, waker } = self;
        let (to_hasher, filled) = bounded(SPANS_UNHASHED);
        let (failed, woken) = (progress.clone(), Arc::clone(&waker));
        thread::scope(|scope| {
            let hasher = Hasher { what, size, encoder: Encoder::new(chunk).hashed_by(hashers()), progress, waker };
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
                Err(cause) => ReadProgress::Failed(Error::Read { what: self.what.clone(), bytes, cause }),
                // Receivers take nothing beyond the announced size.
                Ok(()) if self.size.is_some_and(|size| bytes > size) => ReadProgress::Failed(self.changed(bytes)),
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
        if changed { ReadProgress::Failed(self.changed(read)) } else { ReadProgress::End(self.encoder.trailer()) }
    }

    fn changed(&self, read: u64) -> Error {
        Error::SizeChanged { what: self.what.clone(), announced: self.size.unwrap_or_default(), read }
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
