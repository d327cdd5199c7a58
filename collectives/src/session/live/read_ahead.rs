//! A reader on a thread of its own, which reads ahead of the stream and digests on the way.

use super::Error;
use super::read_again::{ReadAgain, ReadAt};
use crate::session::Trailer;
use crate::session::application::{Again, Next, Source, Tally};
use ethbcast_transport::Instant;
use ethbcast_transport::packet::Waker;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// Bytes read at once: large enough for BLAKE3 to use wide vectors, small enough to start quickly.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks read ahead: 2 MiB.
const CHUNKS_AHEAD: usize = 8;

#[derive(Debug)]
enum Chunk {
    Bytes(Vec<u8>),
    End(Trailer),
    Failed(Error),
}

/// The source of a session whose bytes a [`Reader`] reads.
#[derive(Debug)]
pub struct ReadAhead {
    chunks: Receiver<Chunk>,
    used: SyncSender<Vec<u8>>,
    chunk: Vec<u8>,
    pushed: usize,
    error: Option<Error>,
    /// Reads what was read before, or why that cannot be.
    again: Result<ReadAgain, String>,
    what: String,
    waker: Arc<Waker>,
}

/// The other end, to be [run](Reader::run) on a thread.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    what: String,
    size: Option<u64>,
    chunks: SyncSender<Chunk>,
    used: Receiver<Vec<u8>>,
    waker: Arc<Waker>,
}

/// A source and the reader that fills it from `input`, which errors call `what`; `waker` is told of every chunk. Other
/// than `size` bytes, if that is given, are an error.
pub fn read_ahead<R: Read>(input: R, what: &str, size: Option<u64>, waker: &Arc<Waker>) -> (Reader<R>, ReadAhead) {
    let (to_machine, chunks) = sync_channel(CHUNKS_AHEAD);
    let (used, recycled) = sync_channel(CHUNKS_AHEAD);
    let (what, waker) = (what.to_owned(), Arc::clone(waker));
    let source = ReadAhead {
        chunks,
        used,
        chunk: Vec::new(),
        pushed: 0,
        error: None,
        again: Err(format!("{what} cannot be read again")),
        what: what.clone(),
        waker: Arc::clone(&waker),
    };
    (Reader { input, what, size, chunks: to_machine, used: recycled, waker }, source)
}

impl<R: Read> Reader<R> {
    /// Reads until the end, an error, or the end of the session.
    pub fn run(mut self) {
        let mut tally = Tally::default();
        loop {
            let mut buffer = self.used.try_recv().unwrap_or_default();
            buffer.resize(CHUNK_BYTES, 0);
            let chunk = match fill(&mut self.input, &mut buffer) {
                Ok(0) => self.end(&tally),
                Ok(count) => {
                    buffer.truncate(count);
                    tally.add(&buffer);
                    // Receivers take nothing beyond the size they were told.
                    if self.size.is_some_and(|size| tally.bytes() > size) {
                        self.end(&tally)
                    } else {
                        Chunk::Bytes(buffer)
                    }
                }
                Err(cause) => Chunk::Failed(Error::Read { what: self.what.clone(), bytes: tally.bytes(), cause }),
            };
            let more = matches!(chunk, Chunk::Bytes(_));
            // The other end is gone once the session is over.
            let wanted = self.chunks.send(chunk).is_ok();
            self.waker.wake();
            if !(more && wanted) {
                return;
            }
        }
    }

    fn end(&self, tally: &Tally) -> Chunk {
        match self.size.filter(|&size| size != tally.bytes()) {
            Some(announced) => {
                Chunk::Failed(Error::SizeChanged { what: self.what.clone(), announced, read: tally.bytes() })
            }
            None => Chunk::End(tally.trailer()),
        }
    }
}

/// Reads what there is: a full chunk of a file, whatever has come of a pipe.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

impl ReadAhead {
    /// What was read once is read again from `positions`, whose byte 0 is the reader's first; if there are none, it
    /// cannot be, because the source is a pipe.
    pub fn reading_again_from(mut self, positions: io::Result<impl ReadAt>) -> ReadAhead {
        self.again = match positions {
            Ok(positions) => Ok(ReadAgain::new(positions, &self.waker)),
            Err(_) => Err(format!("{} is a pipe: what was read once cannot be read again", self.what)),
        };
        self
    }

    /// Why there were no more bytes, if that was not their end.
    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    fn fail(&mut self, error: Error) -> Next<'_> {
        let told = format!("the sender gave up: {error}");
        self.error = Some(error);
        Next::Failed(told)
    }
}

impl Source for ReadAhead {
    fn next(&mut self, _now: Instant, _passed: bool) -> Next<'_> {
        if self.pushed == self.chunk.len() {
            if self.pushed > 0 {
                // A reader that has ended needs no buffers: dropping this one is right.
                drop(self.used.try_send(std::mem::take(&mut self.chunk)));
                self.pushed = 0;
            }
            match self.chunks.try_recv() {
                Ok(Chunk::Bytes(bytes)) => self.chunk = bytes,
                Ok(Chunk::End(trailer)) => return Next::End(trailer),
                Ok(Chunk::Failed(error)) => return self.fail(error),
                Err(TryRecvError::Empty) => return Next::Nothing,
                Err(TryRecvError::Disconnected) => return self.fail(Error::GaveUp("the reader panicked".to_owned())),
            }
        }
        Next::Bytes(&self.chunk[self.pushed..])
    }

    fn advance(&mut self, bytes: usize) {
        self.pushed += bytes;
    }

    fn read_again(&mut self, _now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        match &mut self.again {
            Ok(again) => again.read(offset, bytes),
            Err(why) => Again::Impossible(why.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Chain, Cursor};
    use std::thread;

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
            Err(ErrorKind::InvalidData.into())
        }
    }

    /// All that a source has, taken in pieces, and what ended it.
    fn drain(reader: impl Read + Send, size: Option<u64>) -> (Vec<u8>, Result<Trailer, Error>) {
        let waker = Arc::new(Waker::new().expect("a descriptor"));
        let (reader, mut source) = read_ahead(reader, "the tape", size, &waker);
        thread::scope(|scope| {
            scope.spawn(move || reader.run());
            let mut taken = Vec::new();
            loop {
                let piece = match source.next(Instant::START, true) {
                    Next::Bytes(bytes) => &bytes[..bytes.len().min(100_000)],
                    Next::End(trailer) => return (taken, Ok(trailer)),
                    Next::Failed(told) => {
                        let error = source.take_error().expect("there is one");
                        assert_eq!(told, format!("the sender gave up: {error}"));
                        return (taken, Err(error));
                    }
                    _ => {
                        thread::yield_now();
                        continue;
                    }
                };
                taken.extend_from_slice(piece);
                let bytes = piece.len();
                source.advance(bytes);
            }
        })
    }

    #[test]
    fn all_bytes_come_in_order_with_their_digest() {
        let bytes: Vec<u8> = (0..5_000_001_u32).map(|at| (at >> 8) as u8).collect();
        let (taken, trailer) = drain(&bytes[..], Some(5_000_001));
        assert!(taken == bytes);
        let mut tally = Tally::default();
        tally.add(&bytes);
        assert_eq!(trailer.expect("the end"), tally.trailer());
        assert_eq!(drain(io::empty(), None).1.expect("the end").bytes, 0);
    }

    #[test]
    fn a_failure_says_how_far_it_came_and_a_size_that_is_wrong_is_one() {
        let half: Chain<Cursor<Vec<u8>>, Broken> = Cursor::new(vec![1; 300_000]).chain(Broken);
        let (taken, ended) = drain(half, None);
        let error = ended.expect_err("it is broken");
        assert!(taken.len() == 300_000 && matches!(error, Error::Read { bytes: 300_000, .. }), "{error:?}");
        let (taken, ended) = drain(io::repeat(1), Some(1 << 20));
        assert!(taken.len() <= 1 << 20 && matches!(ended, Err(Error::SizeChanged { .. })), "it grows for ever");
        let error = drain(&[1; 10][..], Some(11)).1.expect_err("one is missing");
        assert_eq!(
            error.to_string(),
            "the tape changed while it was read: 11 bytes at first, 10 in the end; send it again"
        );
    }

    #[test]
    fn a_reader_ends_when_nobody_wants_its_bytes_any_more() {
        let waker = Arc::new(Waker::new().expect("a descriptor"));
        let (reader, source) = read_ahead(io::repeat(1), "zeros", None, &waker);
        drop(source);
        reader.run();
    }
}
