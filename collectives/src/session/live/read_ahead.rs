//! A source that is read ahead of the stream by a [`Reader`].

use super::Error;
use super::read_again::{Positions, ReadAgain, ReadAt};
use super::reader::{Progress, Reader};
use super::select_ahead::{Manner, SealedSpans, SelectAhead};
use crate::session::application::{Again, Next, Source};
use crate::session::ledger::{ChunkSet, ChunkSize, Cut, Form, Recent, SpanBuffer};
use ethbcast_transport::Instant;
use ethbcast_transport::packet::Waker;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// Spans read ahead: 3 MiB.
const SPANS_AHEAD: usize = 3;

/// The source of a session whose bytes a [`Reader`] reads.
#[derive(Debug)]
pub struct ReadAhead {
    progress: Receiver<Progress>,
    used: SyncSender<SpanBuffer>,
    span: SpanBuffer,
    pushed: usize,
    error: Option<Error>,
    /// Reads what was read before, or why that cannot be.
    again: Result<ReadAgain, String>,
    /// If it cannot be: what was sent last, and what of it was asked for.
    recent: Recent,
    part: Vec<u8>,
    what: String,
    size: Option<u64>,
    chunk: ChunkSize,
    /// The same bytes at any position, how they are named, and what is selected of them.
    positions: Option<Positions>,
    cut: Cut,
    only_asks: bool,
    selecting: Option<SelectAhead>,
    /// Why nothing can be selected.
    unselected: Option<Error>,
    waker: Arc<Waker>,
}

/// A source and the reader that fills it from `input`, which errors call `what`; `waker` is told of every span. Other
/// than `size` bytes, if that is given, are an error. Chunks are so long.
pub fn read_ahead<R: Read>(
    (input, what, size): (R, &str, Option<u64>),
    chunk: ChunkSize,
    waker: &Arc<Waker>,
) -> (Reader<R>, ReadAhead) {
    let (to_machine, progress) = sync_channel(SPANS_AHEAD);
    let (used, recycled) = sync_channel(SPANS_AHEAD);
    let (what, waker) = (what.to_owned(), Arc::clone(waker));
    let source = ReadAhead {
        progress,
        used,
        span: SpanBuffer::default(),
        pushed: 0,
        error: None,
        again: Err(format!("{what} cannot be read again")),
        recent: Recent::default(),
        part: Vec::new(),
        what: what.clone(),
        size,
        chunk,
        positions: None,
        cut: Cut::None,
        only_asks: false,
        selecting: None,
        unselected: None,
        waker: Arc::clone(&waker),
    };
    (Reader::new((input, what, size), chunk, to_machine, recycled, waker), source)
}

impl ReadAhead {
    /// What was read once is read again from `positions`, whose byte 0 is the reader's first; if there are none, only
    /// the last 4 MiB can be had again, because the source is a pipe.
    pub fn reading_again_from(mut self, positions: io::Result<impl ReadAt>) -> ReadAhead {
        self.again = match positions {
            Ok(positions) => {
                let positions = Positions::new(positions);
                self.positions = Some(positions.clone());
                Ok(ReadAgain::new(positions, self.chunk, &self.waker))
            }
            Err(_) => Err(format!("{} is a pipe: what was read once cannot be read again", self.what)),
        };
        self
    }

    /// Where receivers have some of the content, its fragments are named as `cut` says, so that they are found
    /// elsewhere.
    pub fn naming(self, cut: Cut) -> ReadAhead {
        ReadAhead { cut, ..self }
    }

    /// Where receivers have some of the content, they are only asked what they lack, and nothing is sent.
    pub fn only_asking(self, only_asks: bool) -> ReadAhead {
        ReadAhead { only_asks, ..self }
    }

    /// Whether receivers had some of the content, and were asked what they lack of all of it.
    pub fn has_asked(&self) -> bool {
        self.selecting.as_ref().is_some_and(SelectAhead::has_asked)
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
    fn form(&self) -> Form {
        Form::Ledgered(self.chunk)
    }

    fn selects(&self) -> bool {
        self.positions.is_some() && self.size.is_some()
    }

    fn select(&mut self, frame_bytes: usize) {
        let (Some(positions), Some(size)) = (&self.positions, self.size) else { return };
        // From here on that thread takes what the reader brings.
        let ((_, progress), (used, _)) = (sync_channel(0), sync_channel(0));
        let used = std::mem::replace(&mut self.used, used);
        let spans = SealedSpans::new(std::mem::replace(&mut self.progress, progress), used);
        let manner = Manner { chunk: self.chunk, cut: self.cut, frame_bytes, only_asks: self.only_asks };
        match SelectAhead::begin(spans, positions.clone(), (&self.what, size), manner, &self.waker) {
            Ok(selecting) => self.selecting = Some(selecting),
            Err(error) => self.unselected = Some(Error::Resources(error)),
        }
    }

    fn wants_choice(&self) -> Option<u64> {
        self.selecting.as_ref()?.wants_choice()
    }

    fn choose(&mut self, _stretch: u64, chunks: ChunkSet) {
        self.selecting.iter_mut().for_each(|selecting| selecting.choose(chunks));
    }

    fn read_whole(&mut self, _now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        match &mut self.again {
            Ok(again) => again.read(offset..offset + bytes as u64, self.size.unwrap_or(u64::MAX)),
            Err(why) => Again::Impossible(why.clone()),
        }
    }

    fn next(&mut self, _now: Instant, consumed: bool) -> Next<'_> {
        if let Some(error) = self.unselected.take() {
            return self.fail(error);
        }
        if let Some(next) = self.selecting.as_mut().map(|selecting| selecting.next(consumed)) {
            return match next {
                Ok(next) => {
                    next.unwrap_or_else(|| Next::Bytes(self.selecting.as_ref().map_or(&[], SelectAhead::bytes)))
                }
                Err(error) => self.fail(error),
            };
        }
        if self.pushed == self.span.as_bytes().len() {
            if self.pushed > 0 {
                let sent = std::mem::take(&mut self.span);
                let used = if self.again.is_ok() { Some(sent) } else { self.recent.keep(sent) };
                if let Some(used) = used {
                    // A reader that has ended needs no memory: dropping this one is right.
                    drop(self.used.try_send(used));
                }
                self.pushed = 0;
            }
            match self.progress.try_recv() {
                Ok(Progress::Span(span)) => self.span = span,
                Ok(Progress::End(trailer)) => {
                    // What grows behind its end later is not read again.
                    self.size = Some(Form::Ledgered(self.chunk).content_bytes(trailer.bytes));
                    return Next::End(trailer);
                }
                Ok(Progress::Failed(error)) => return self.fail(error),
                Err(TryRecvError::Empty) => return Next::Nothing,
                Err(TryRecvError::Disconnected) => return self.fail(Error::GaveUp("the reader panicked".to_owned())),
            }
        }
        Next::Bytes(&self.span.as_bytes()[self.pushed..])
    }

    fn advance(&mut self, bytes: usize) {
        if let Some(selecting) = &mut self.selecting {
            return selecting.advance(bytes);
        }
        self.pushed += bytes;
    }

    fn read_again(&mut self, _now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        let part = offset..offset + bytes as u64;
        if let (Some(selecting), Ok(again)) = (&mut self.selecting, &mut self.again) {
            return selecting.read_again(&part, again);
        }
        match &mut self.again {
            Ok(again) => again.read(part, self.size.unwrap_or(u64::MAX)),
            Err(_) if self.recent.copy_part(&self.span, &part, &mut self.part) => Again::Bytes(&self.part),
            Err(why) => Again::Impossible(why.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Trailer;
    use crate::session::ledger::Decoder;
    use std::io::{Chain, Cursor, ErrorKind};
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
        let (reader, mut source) = read_ahead((reader, "the tape", size), ChunkSize::DEFAULT, &waker);
        thread::scope(|scope| {
            scope.spawn(move || reader.run());
            take_all(&mut source)
        })
    }

    fn take_all(source: &mut ReadAhead) -> (Vec<u8>, Result<Trailer, Error>) {
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
    }

    #[test]
    fn of_a_pipe_the_last_bytes_can_be_had_again_and_those_before_cannot() {
        let bytes: Vec<u8> = (0..9_000_000_u32).map(|at| (at >> 8) as u8).collect();
        let waker = Arc::new(Waker::new().expect("a descriptor"));
        let (reader, mut source) = read_ahead((&bytes[..], "the tape", None), ChunkSize::DEFAULT, &waker);
        thread::scope(|scope| {
            scope.spawn(move || reader.run());
            let (taken, _) = take_all(&mut source);
            let part = taken.len() - 2_000_000..taken.len() - 1_900_000;
            let again = source.read_again(Instant::START, part.start as u64, part.len());
            assert!(matches!(again, Again::Bytes(bytes) if bytes == &taken[part]));
            let Again::Impossible(why) = source.read_again(Instant::START, 0, 1000) else { panic!("it is gone") };
            assert_eq!(why, "the tape cannot be read again");
        });
    }

    /// The content of a stream that ends so.
    fn decoded(stream: Vec<u8>, trailer: Trailer) -> Vec<u8> {
        let mut decoder = Decoder::default();
        let mut content = Vec::new();
        for span in stream.chunks(ChunkSize::DEFAULT.whole_bytes()) {
            decoder.take(span.to_vec());
            content.extend_from_slice(decoder.poll().expect("nothing is damaged").bytes());
        }
        assert_eq!(decoder.trailer(), trailer, "all has come");
        content
    }

    #[test]
    fn all_bytes_come_in_order_with_their_digest() {
        let bytes: Vec<u8> = (0..5_000_001_u32).map(|at| (at >> 8) as u8).collect();
        let (taken, trailer) = drain(&bytes[..], Some(5_000_001));
        let trailer = trailer.expect("the end");
        assert_eq!(trailer.digest, *blake3::hash(&bytes).as_bytes());
        assert!(decoded(taken, trailer) == bytes);
        assert_eq!(drain(io::empty(), None).1.expect("the end").bytes, 0);
    }

    #[test]
    fn a_failure_says_how_far_it_came_and_a_size_that_is_wrong_is_one() {
        let half: Chain<Cursor<Vec<u8>>, Broken> = Cursor::new(vec![1; 1_300_000]).chain(Broken);
        let (taken, ended) = drain(half, None);
        let error = ended.expect_err("it is broken");
        let whole = Form::LEDGERED.stream_bytes(1 << 20);
        assert!(taken.len() as u64 == whole && matches!(error, Error::Read { bytes: 1_300_000, .. }), "{error:?}");
        let (taken, ended) = drain(io::repeat(1), Some(1 << 20));
        assert!(taken.len() as u64 <= whole && matches!(ended, Err(Error::SizeChanged { .. })), "it grows for ever");
        let error = drain(&[1; 10][..], Some(11)).1.expect_err("one is missing");
        assert_eq!(
            error.to_string(),
            "the tape changed while it was read: 11 bytes at first, 10 in the end; send it again"
        );
    }

    #[test]
    fn a_reader_ends_when_nobody_wants_its_bytes_any_more() {
        let waker = Arc::new(Waker::new().expect("a descriptor"));
        let (reader, source) = read_ahead((io::repeat(1), "zeros", None), ChunkSize::DEFAULT, &waker);
        drop(source);
        reader.run();
    }
}
