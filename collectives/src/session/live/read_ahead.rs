//! Threads that read and hash the sender's content ahead of the stream. A slow disk thus slows down
//! the stream, and not the thread that serves frames.

use super::read_again::{Positions, ReadAgain, ReadAt};
use super::reader::{ReadProgress, Reader};
use super::report::Error;
use crate::keys::ContentCipher;
use crate::session::application::Again;
use crate::session::message::{Digest, Trailer};
use crate::session::verified::{
    Brought, ChunkSet, ChunkSize, Cut, Form, InputQueue, Manner, Sections, Selected, SelectedInput,
    SelectedSender, SpanBuffer, SpanPlace, SpanSource,
};
use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, never, unbounded};
use crossbeam_queue::ArrayQueue;
use ethbcast_transport::Instant;
use ethbcast_transport::lock::Mutex;
use ethbcast_transport::packet::Waker;
use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::thread;

/// Number of spans read ahead: 3 MiB.
const SPANS_AHEAD: usize = 3;

/// Digest that the bytes must have, once it is known, and the error if they have another.
#[derive(Clone, Debug, Default)]
pub(super) struct DigestBefore {
    digest: Arc<OnceLock<Digest>>,
    text: &'static str,
}

impl DigestBefore {
    pub(super) fn new(digest: &Arc<OnceLock<Digest>>, text: &'static str) -> DigestBefore {
        let digest = Arc::clone(digest);
        DigestBefore { digest, text }
    }

    fn differs_from(&self, other: &Digest) -> bool {
        self.digest.get().is_some_and(|before| before != other)
    }
}

/// Source of a session whose bytes a [`Reader`] reads.
pub type ReadAhead = SpanSource<OnThreads>;

#[derive(Debug)]
pub struct OnThreads {
    progress: Receiver<ReadProgress>,
    used: Arc<ArrayQueue<SpanBuffer>>,
    error: Option<Error>,
    again: Result<ReadAgain, String>,
    what: String,
    size: Option<u64>,
    chunk: ChunkSize,
    positions: Option<Positions>,
    cut: Cut,
    requests_only: bool,
    selecting: Option<SelectAhead>,
    waker: Arc<Waker>,
    cipher: ContentCipher,
    to_reader: Option<Sender<ContentCipher>>,
    /// Digest that the content must have, if that is known before its end.
    digest: DigestBefore,
}

/// Creates a source and the reader that fills it from `input`. `what` names the input in errors.
/// `waker` is woken for every span. A length other than `size` bytes, if given, is an error. Chunks
/// have size `chunk`.
pub fn read_ahead<R: Read>(
    (input, what, size): (R, &str, Option<u64>),
    chunk: ChunkSize,
    waker: &Arc<Waker>,
) -> (Reader<R>, ReadAhead) {
    let (to_machine, progress) = bounded(SPANS_AHEAD);
    let used = Arc::new(ArrayQueue::new(SPANS_AHEAD));
    let recycled = Arc::clone(&used);
    let (to_reader, cipher) = bounded(1);
    let (what, waker) = (what.to_owned(), Arc::clone(waker));
    let threads = OnThreads {
        progress,
        used,
        error: None,
        again: Err(format!("{what} cannot be read again")),
        what: what.clone(),
        size,
        chunk,
        positions: None,
        cut: Cut::None,
        requests_only: false,
        selecting: None,
        waker: Arc::clone(&waker),
        cipher: ContentCipher::default(),
        to_reader: Some(to_reader),
        digest: DigestBefore::default(),
    };
    (
        Reader::new(
            (input, what, size),
            chunk,
            to_machine,
            recycled,
            (waker, cipher),
        ),
        SpanSource::new(threads),
    )
}

impl ReadAhead {
    /// Sets where to re-read bytes: offset 0 of `positions` is the reader's first byte. If
    /// `positions` is an error, the source is a pipe, and only its last 4 MiB can be re-sent.
    pub fn reading_again_from(mut self, positions: io::Result<impl ReadAt>) -> ReadAhead {
        let threads = self.bringer_mut();
        match positions {
            Ok(positions) => {
                let positions = Positions::new(positions);
                threads.positions = Some(positions.clone());
                threads.again = Ok(ReadAgain::new(positions, threads.chunk, &threads.waker));
                self.forgetting()
            }
            Err(_) => {
                threads.again = Err(format!(
                    "{} is a pipe, which cannot be read a second time",
                    threads.what
                ));
                self
            }
        }
    }

    /// Sets how fragments are cut. Receivers that hold part of the content find it at other offsets
    /// by them.
    pub fn naming(self, cut: Cut) -> ReadAhead {
        self.brought_by(|threads| OnThreads { cut, ..threads })
    }

    /// Sets whether receivers only report what they lack, and nothing is sent.
    pub fn with_requests_only(self, requests_only: bool) -> ReadAhead {
        self.brought_by(|threads| OnThreads {
            requests_only,
            ..threads
        })
    }

    pub(super) fn of_digest(self, digest: DigestBefore) -> ReadAhead {
        self.brought_by(|threads| OnThreads { digest, ..threads })
    }

    pub fn take_error(&mut self) -> Option<Error> {
        self.bringer_mut().error.take()
    }
}

impl OnThreads {
    fn fail(&mut self, error: Error) -> Brought {
        let told = format!("the sender gave up: {error}");
        self.error = Some(error);
        Brought::Failed(told)
    }
}

impl InputQueue for OnThreads {
    fn chunk(&self) -> ChunkSize {
        self.chunk
    }

    fn protect(&mut self, cipher: ContentCipher) {
        (self.chunk, self.cipher) = (self.chunk.signed(cipher.is_keyed()), cipher);
        self.again
            .iter_mut()
            .for_each(|again| again.protect(&self.cipher));
        if self
            .to_reader
            .take()
            .is_some_and(|reader| reader.send(self.cipher.clone()).is_err())
        {
            log::debug!("the reader has ended");
        }
    }

    fn bring(&mut self, _now: Instant, _consumed: bool) -> Brought {
        self.to_reader = None;
        if let Some(error) = self.error.take() {
            return self.fail(error);
        }
        if let Some(selecting) = &mut self.selecting {
            return selecting.bring().unwrap_or_else(|error| self.fail(error));
        }
        match self.progress.try_recv() {
            Ok(ReadProgress::Span(span)) => Brought::Span(span),
            Ok(ReadProgress::End(trailer)) if self.digest.differs_from(&trailer.digest) => {
                self.fail(Error::GaveUp(self.digest.text.to_owned()))
            }
            Ok(ReadProgress::End(trailer)) => {
                // Bytes appended later are not re-read.
                self.size = Some(Form::Verified(self.chunk).content_bytes(trailer.bytes));
                Brought::End(trailer)
            }
            Ok(ReadProgress::Failed(error)) => self.fail(error),
            Err(TryRecvError::Empty) => Brought::Nothing,
            Err(TryRecvError::Disconnected) => {
                self.fail(Error::GaveUp("the reader panicked".to_owned()))
            }
        }
    }

    fn recycle(&mut self, used: SpanBuffer) {
        // Memory beyond the queue's capacity is not needed.
        drop(self.used.push(used));
    }

    fn selects(&self) -> bool {
        self.positions.is_some() && self.size.is_some()
    }

    fn select(&mut self, frame_bytes: usize) -> Option<Arc<Mutex<Sections>>> {
        self.to_reader = None;
        let (positions, size) = self.positions.as_ref().zip(self.size)?;
        // From here on that thread takes the reader's spans.
        let spans = SealedSpans::new(
            std::mem::replace(&mut self.progress, never()),
            Arc::clone(&self.used),
        );
        let (cipher, cut, requests_only) = (self.cipher.clone(), self.cut, self.requests_only);
        let manner = Manner {
            chunk: self.chunk,
            cipher,
            cut,
            frame_bytes,
            requests_only,
        };
        match SelectAhead::begin(
            spans,
            positions.clone(),
            (&self.what, size),
            manner,
            &self.waker,
        ) {
            Ok((selecting, sections)) => {
                self.selecting = Some(selecting);
                Some(sections)
            }
            Err(error) => {
                self.error = Some(Error::Resources(error));
                None
            }
        }
    }

    fn choose(&mut self, chunks: ChunkSet) {
        self.selecting
            .iter()
            .for_each(|selecting| selecting.choose(chunks));
    }

    fn read_whole(&mut self, _now: Instant, part: Range<u64>) -> Again<'_> {
        match &mut self.again {
            Ok(again) => again.read(part, self.size.unwrap_or(u64::MAX)),
            Err(why) => Again::Impossible(why.clone()),
        }
    }
}

const PARTS_AHEAD: usize = 3;

#[derive(Debug)]
pub(super) struct SelectAhead {
    parts: Receiver<Result<Selected, Error>>,
    choices: Sender<ChunkSet>,
}

impl SelectAhead {
    /// Starts a thread that makes the selective stream of the content of `spans`, which has
    /// `content_bytes` bytes; chunks are read from `positions`. Also returns the sections made so
    /// far.
    pub(super) fn begin(
        spans: SealedSpans,
        positions: Positions,
        (what, content_bytes): (&str, u64),
        manner: Manner,
        waker: &Arc<Waker>,
    ) -> io::Result<(SelectAhead, Arc<Mutex<Sections>>)> {
        let (to_machine, parts) = bounded(PARTS_AHEAD);
        let (choices, chosen) = unbounded();
        let sender = SelectedSender::new(content_bytes, manner);
        let sections = Arc::clone(sender.sections());
        let input = Input {
            spans,
            positions,
            what: what.to_owned(),
            content_bytes,
        };
        let work = SelectWork {
            input,
            sender,
            chosen,
            parts: to_machine,
            waker: Arc::clone(waker),
        };
        thread::Builder::new()
            .name("select".to_owned())
            .spawn(|| work.run())?;
        Ok((SelectAhead { parts, choices }, sections))
    }

    pub(super) fn choose(&self, chunks: ChunkSet) {
        if self.choices.send(chunks).is_err() {
            log::debug!("the thread that selects has ended");
        }
    }

    pub(super) fn bring(&mut self) -> Result<Brought, Error> {
        match self.parts.try_recv() {
            Ok(Ok(Selected::Part(part))) => Ok(Brought::Part(part)),
            Ok(Ok(Selected::End(trailer))) => Ok(Brought::End(trailer)),
            Ok(Ok(Selected::Asked)) => Ok(Brought::Asked),
            Ok(Ok(Selected::NeedsChoice)) | Err(TryRecvError::Empty) => Ok(Brought::Nothing),
            Ok(Err(error)) => Err(error),
            Err(TryRecvError::Disconnected) => Err(panicked()),
        }
    }
}

#[derive(Debug)]
pub(super) struct SealedSpans {
    progress: Receiver<ReadProgress>,
    used: Arc<ArrayQueue<SpanBuffer>>,
}

impl SealedSpans {
    pub(super) fn new(
        progress: Receiver<ReadProgress>,
        used: Arc<ArrayQueue<SpanBuffer>>,
    ) -> SealedSpans {
        SealedSpans { progress, used }
    }

    fn next(&self) -> Result<ReadProgress, Error> {
        match self.progress.recv() {
            Ok(ReadProgress::Failed(error)) => Err(error),
            Ok(progress) => Ok(progress),
            Err(_) => Err(panicked()),
        }
    }
}

struct Input {
    spans: SealedSpans,
    positions: Positions,
    what: String,
    content_bytes: u64,
}

impl SelectedInput for Input {
    type Error = Error;

    fn span(&mut self, _place: &SpanPlace, used: SpanBuffer) -> Result<SpanBuffer, Error> {
        drop(self.spans.used.push(used));
        match self.spans.next()? {
            ReadProgress::Span(span) => Ok(span),
            _ => Err(panicked()),
        }
    }

    fn read(&mut self, mut to: &mut [u8], mut offset: u64) -> Result<(), Error> {
        while !to.is_empty() {
            match self.positions.read_at(to, offset) {
                Ok(0) => {
                    let (what, announced) = (self.what.clone(), self.content_bytes);
                    return Err(Error::SizeChanged {
                        what,
                        announced,
                        read: offset,
                    });
                }
                Ok(count) => {
                    to = &mut to[count..];
                    offset += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(cause) => {
                    return Err(Error::Read {
                        what: self.what.clone(),
                        bytes: offset,
                        cause,
                    });
                }
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<Trailer, Error> {
        match self.spans.next()? {
            ReadProgress::End(trailer) => Ok(trailer),
            _ => Err(panicked()),
        }
    }
}

struct SelectWork {
    input: Input,
    sender: SelectedSender,
    chosen: Receiver<ChunkSet>,
    parts: Sender<Result<Selected, Error>>,
    waker: Arc<Waker>,
}

impl SelectWork {
    fn run(mut self) {
        loop {
            self.chosen
                .try_iter()
                .for_each(|chunks| self.sender.choose(chunks));
            let made = match self.sender.next(&mut self.input) {
                Ok(Selected::NeedsChoice) => match self.chosen.recv() {
                    Ok(chunks) => {
                        self.sender.choose(chunks);
                        continue;
                    }
                    // The session has ended early.
                    Err(_) => return,
                },
                made => made,
            };
            let is_last = !matches!(made, Ok(Selected::Part(_)));
            let wanted = self.parts.send(made).is_ok();
            self.waker.wake();
            if is_last || !wanted {
                return;
            }
        }
    }
}

fn panicked() -> Error {
    Error::GaveUp("the reader panicked".to_owned())
}

#[cfg(test)]
mod tests {
    use crate::session::application::{Next, Source, VerifiedStream};
    use crate::session::live::read_ahead::*;
    use crate::session::message::Trailer;
    use crate::session::verified::{Decoder, SPAN_BYTES};
    use std::io::{Chain, Cursor, ErrorKind};
    use std::thread;

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
            Err(ErrorKind::InvalidData.into())
        }
    }

    fn drain(reader: impl Read + Send, size: Option<u64>) -> (Vec<u8>, Result<Trailer, Error>) {
        let waker = Arc::new(Waker::new().expect("a descriptor"));
        let (reader, mut source) =
            read_ahead((reader, "the tape", size), ChunkSize::DEFAULT, &waker);
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
    fn only_the_last_bytes_of_a_pipe_can_be_read_again() {
        let bytes: Vec<u8> = (0..9_000_000_u32).map(|at| (at >> 8) as u8).collect();
        let waker = Arc::new(Waker::new().expect("a descriptor"));
        let (reader, mut source) =
            read_ahead((&bytes[..], "the tape", None), ChunkSize::DEFAULT, &waker);
        thread::scope(|scope| {
            scope.spawn(move || reader.run());
            let (taken, _) = take_all(&mut source);
            let part = taken.len() - 2_000_000..taken.len() - 1_900_000;
            let again = source.read_again(Instant::START, part.start as u64, part.len());
            assert!(matches!(again, Again::Bytes(bytes) if bytes == &taken[part]));
            let Again::Impossible(why) = source.read_again(Instant::START, 0, 1000) else {
                panic!("it is gone")
            };
            assert_eq!(why, "the tape cannot be read again");
        });
    }

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
    fn bytes_that_were_changed_on_the_way_are_not_passed_on_as_the_senders() {
        let waker = Arc::new(Waker::new().expect("a descriptor"));
        for (changed, is_refused) in [(5, false), (6, true)] {
            let (digest, bytes) = (Arc::new(OnceLock::new()), [changed; 9]);
            let (reader, source) = read_ahead((&bytes[..], "it", None), ChunkSize::DEFAULT, &waker);
            let mut source = source.of_digest(DigestBefore::new(&digest, "changed"));
            let sender = *blake3::hash(&[5; 9]).as_bytes();
            digest.set(sender).expect("it is empty");
            let (_, ended) = thread::scope(|scope| {
                scope.spawn(move || reader.run());
                take_all(&mut source)
            });
            match ended {
                Ok(trailer) => assert!(!is_refused && trailer.digest == sender),
                Err(error) => assert!(is_refused && error.to_string() == "changed"),
            }
        }
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
        let whole = Form::VERIFIED.stream_bytes(1 << 20);
        assert!(
            taken.len() as u64 == whole
                && matches!(
                    error,
                    Error::Read {
                        bytes: 1_300_000,
                        ..
                    }
                ),
            "{error:?}"
        );
        let (taken, ended) = drain(io::repeat(1), Some(1 << 20));
        assert!(
            taken.len() as u64 <= whole && matches!(ended, Err(Error::SizeChanged { .. })),
            "it grows for ever"
        );
        let error = drain(&[1; 10][..], Some(11)).1.expect_err("one is missing");
        assert_eq!(
            error.to_string(),
            "the tape changed while it was read: 11 bytes at first, 10 in the end; send it again"
        );
    }

    const PATTERN_BYTES: u64 = 40 * SPAN_BYTES as u64;

    struct Pattern(u64);

    impl ReadAt for Pattern {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let count = buffer
                .len()
                .min(PATTERN_BYTES.saturating_sub(offset) as usize);
            buffer[..count]
                .iter_mut()
                .zip(offset..)
                .for_each(|(byte, at)| *byte = (at >> 7) as u8);
            Ok(count)
        }
    }

    impl Read for Pattern {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.read_at(buffer, self.0)?;
            self.0 += count as u64;
            Ok(count)
        }
    }

    #[test]
    fn hash_lists_of_more_spans_than_are_kept_are_made_again() {
        let waker = Arc::new(Waker::new().expect("a descriptor"));
        let (reader, source) = read_ahead(
            (Pattern(0), "a pattern", Some(PATTERN_BYTES)),
            ChunkSize::DEFAULT,
            &waker,
        );
        let mut source = source.reading_again_from(Ok(Pattern(0)));
        source.select(1468);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        thread::scope(|scope| {
            scope.spawn(move || reader.run());
            let sent = loop {
                assert!(std::time::Instant::now() < deadline, "no hash lists");
                match source.next(Instant::START, false) {
                    Next::Bytes(bytes) => break bytes.to_vec(),
                    Next::Nothing => thread::yield_now(),
                    other => panic!("{other:?}"),
                }
            };
            loop {
                assert!(
                    std::time::Instant::now() < deadline,
                    "the same spans are read over and over"
                );
                match source.read_again(Instant::START, 0, sent.len()) {
                    Again::Bytes(bytes) => break assert!(bytes == sent),
                    Again::Pending => thread::yield_now(),
                    Again::Impossible(why) => panic!("{why}"),
                }
            }
            drop(source);
        });
    }

    #[test]
    fn a_reader_ends_when_nobody_wants_its_bytes_any_more() {
        let waker = Arc::new(Waker::new().expect("a descriptor"));
        let (reader, source) =
            read_ahead((io::repeat(1), "zeros", None), ChunkSize::DEFAULT, &waker);
        drop(source);
        reader.run();
    }
}
