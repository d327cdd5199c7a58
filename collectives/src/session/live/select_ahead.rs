//! Only what somebody lacks of a content, made on a thread of its own: ledgers ahead of the chunks that were chosen. A
//! reader brings the whole content once, from beginning to end; chunks are read again.

use super::Error;
use super::read_again::{Positions, ReadAgain, ReadAt};
use super::reader::Progress;
use crate::session::Trailer;
use crate::session::application::{Again, Next};
use crate::session::ledger::{ChunkSet, ChunkSize, Cut, Due, Form, SectionPart, Sections, Selector, SpanBuffer};
use ethbcast_transport::packet::Waker;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread;

/// Parts of the stream that are ready.
const PARTS_AHEAD: usize = 3;
/// Bytes of such a part, roughly.
const PART_BYTES: usize = 1 << 20;

/// What receivers hear when all was asked.
const ASKED: &str = "the sender has asked what is lacking, and sends nothing now (--dry-run)";

#[derive(Debug)]
enum Part {
    Bytes(Vec<u8>),
    End(Trailer),
    Failed(Error),
    /// All was asked, and nothing is sent.
    Asked,
}

/// How a content is selected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// How long its chunks are.
    pub chunk: ChunkSize,
    /// How its fragments are named.
    pub cut: Cut,
    /// The bytes of a frame.
    pub frame_bytes: usize,
    /// It is only asked what is lacking.
    pub only_asks: bool,
}

/// What is being selected, and by whom.
#[derive(Debug)]
pub(super) struct SelectAhead {
    parts: Receiver<Part>,
    choices: Sender<ChunkSet>,
    /// How many have been made.
    chosen: u64,
    sections: Arc<Mutex<Sections>>,
    part: Vec<u8>,
    pushed: usize,
    again: Remade,
    has_asked: bool,
}

/// A part of what was sent that is being made again, or was. The ledgers of a stretch take more spans to be read than
/// are kept: what of it has been made is not made once more.
#[derive(Debug, Default)]
struct Remade {
    range: Range<u64>,
    /// What of it is still to be made.
    left: VecDeque<SectionPart>,
    bytes: Vec<u8>,
}

impl SelectAhead {
    /// Selects of what `spans` brings, which has so many bytes; chunks are read from `positions`.
    ///
    /// # Errors
    /// If there is no thread.
    pub(super) fn begin(
        spans: SealedSpans,
        positions: Positions,
        (what, content_bytes): (&str, u64),
        Manner { chunk, cut, frame_bytes, only_asks }: Manner,
        waker: &Arc<Waker>,
    ) -> io::Result<SelectAhead> {
        let (to_machine, parts) = sync_channel(PARTS_AHEAD);
        let (choices, chosen) = channel();
        let selector = Selector::new(chunk, content_bytes, cut, frame_bytes);
        let sections = Arc::clone(selector.sections());
        let (what, waker) = (what.to_owned(), Arc::clone(waker));
        let work = Work {
            spans,
            positions,
            what,
            form: Form::Ledgered(chunk),
            content_bytes,
            selector,
            only_asks,
            chosen,
            parts: to_machine,
            waker,
        };
        thread::Builder::new().name("select".to_owned()).spawn(|| work.run())?;
        let (part, again) = (Vec::new(), Remade::default());
        Ok(SelectAhead { parts, choices, chosen: 0, sections, part, pushed: 0, again, has_asked: false })
    }

    /// The stretch of which it has to be known what is sent.
    pub(super) fn wants_choice(&self) -> Option<u64> {
        Some(self.chosen).filter(|&next| next < self.sections.lock().ledgers())
    }

    /// These are sent of it.
    pub(super) fn choose(&mut self, chunks: ChunkSet) {
        self.chosen += 1;
        if self.choices.send(chunks).is_err() {
            log::debug!("the thread that selects has ended");
        }
    }

    /// What comes next if that is no [bytes](SelectAhead::bytes), or why there is no more; `consumed`: all receivers
    /// have what came before.
    pub(super) fn next(&mut self, consumed: bool) -> Result<Option<Next<'static>>, Error> {
        if self.pushed == self.part.len() {
            if self.has_asked {
                // Not before all know that they were only asked: they wait for whoever sends then.
                return Ok(Some(if consumed { Next::Failed(ASKED.to_owned()) } else { Next::Nothing }));
            }
            match self.parts.try_recv() {
                Ok(Part::Bytes(part)) => (self.part, self.pushed) = (part, 0),
                Ok(Part::End(trailer)) => return Ok(Some(Next::End(trailer))),
                Ok(Part::Failed(error)) => return Err(error),
                Ok(Part::Asked) => {
                    self.has_asked = true;
                    return Ok(Some(Next::Message { reported: true }));
                }
                Err(TryRecvError::Empty) => return Ok(Some(Next::Nothing)),
                Err(TryRecvError::Disconnected) => return Err(Error::GaveUp("the reader panicked".to_owned())),
            }
        }
        Ok(None)
    }

    /// Whether all was asked, and that was all there was to do.
    pub(super) fn has_asked(&self) -> bool {
        self.has_asked
    }

    /// The bytes that come next.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.part[self.pushed..]
    }

    /// So many bytes of it were taken.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.pushed += bytes;
    }

    /// A part of what was sent, made again.
    pub(super) fn read_again(&mut self, range: &Range<u64>, whole: &mut ReadAgain) -> Again<'_> {
        let Remade { range: begun, left, bytes: made } = &mut self.again;
        let content_bytes = {
            let sections = self.sections.lock();
            if begun != range {
                (*begun, *left) = (range.clone(), sections.parts_of(range).into());
                made.clear();
            }
            sections.content_bytes()
        };
        while let Some(part) = left.front() {
            match part {
                SectionPart::Bytes(bytes) => made.extend(bytes),
                SectionPart::Names(count) => made.resize(made.len() + *count as usize, 0),
                SectionPart::Whole(range) => match whole.read(range.clone(), content_bytes) {
                    Again::Bytes(bytes) => made.extend_from_slice(bytes),
                    Again::Pending => return Again::Pending,
                    Again::Impossible(why) => return Again::Impossible(why),
                },
            }
            left.pop_front();
        }
        Again::Bytes(made)
    }
}

/// What is read of the content from its beginning to its end.
#[derive(Debug)]
pub(super) struct SealedSpans {
    progress: Receiver<Progress>,
    /// Where used memory goes.
    used: SyncSender<SpanBuffer>,
}

impl SealedSpans {
    /// What comes by `progress`; used memory goes back by `used`.
    pub(super) fn new(progress: Receiver<Progress>, used: SyncSender<SpanBuffer>) -> SealedSpans {
        SealedSpans { progress, used }
    }
}

/// What the thread does.
struct Work {
    spans: SealedSpans,
    positions: Positions,
    what: String,
    form: Form,
    content_bytes: u64,
    selector: Selector,
    only_asks: bool,
    chosen: Receiver<ChunkSet>,
    parts: SyncSender<Part>,
    waker: Arc<Waker>,
}

impl Work {
    /// Makes all sections, until nobody wants them.
    fn run(mut self) {
        let last = match self.make() {
            Ok(Some(_)) if self.only_asks => Part::Asked,
            Ok(Some(trailer)) => Part::End(trailer),
            Ok(None) => return,
            Err(error) => Part::Failed(error),
        };
        self.tell(last);
    }

    /// Whether it is still wanted.
    fn tell(&self, part: Part) -> bool {
        let wanted = self.parts.send(part).is_ok();
        self.waker.wake();
        wanted
    }

    /// What it adds up to; none if the session has ended before.
    fn make(&mut self) -> Result<Option<Trailer>, Error> {
        loop {
            let wanted = match self.selector.due() {
                Due::Ledgers(place) => {
                    let SealedSpans { progress, used } = &self.spans;
                    let section = self.selector.ledgers(&place, |_, span| {
                        drop(used.try_send(span));
                        match next(progress)? {
                            Progress::Span(span) => Ok(span),
                            _ => Err(panicked()),
                        }
                    })?;
                    // It is asked at once what is lacking of it.
                    self.tell(Part::Bytes(section))
                }
                Due::Chunks(_) => match self.choice() {
                    Some(chunks) => self.send_chunks(chunks)?,
                    None => false,
                },
                Due::End => match next(&self.spans.progress)? {
                    Progress::End(trailer) => return Ok(Some(trailer)),
                    _ => return Err(panicked()),
                },
            };
            if !wanted {
                return Ok(None);
            }
        }
    }

    /// What is sent of the next stretch; none if nobody wants it any more.
    fn choice(&mut self) -> Option<ChunkSet> {
        if let Ok(chunks) = self.chosen.try_recv() {
            return Some(chunks);
        }
        // What was made goes, whole frame or not: it is answered.
        let wanted = self.selector.padding().is_none_or(|padding| self.tell(Part::Bytes(padding)));
        if wanted { self.chosen.recv().ok() } else { None }
    }

    /// Sends the chunks that were chosen of the next stretch; whether it is still wanted.
    fn send_chunks(&mut self, chunks: ChunkSet) -> Result<bool, Error> {
        let whole_bytes = self.form.stream_bytes(self.content_bytes);
        let mut bytes = Vec::new();
        for part in if self.only_asks { self.selector.pass() } else { self.selector.chunks(chunks) } {
            match part {
                SectionPart::Bytes(part) => bytes.extend(part),
                SectionPart::Names(count) => bytes.resize(bytes.len() + count as usize, 0),
                SectionPart::Whole(range) => {
                    let (content, _) = self.form.content_of(&range, whole_bytes);
                    let begin = bytes.len();
                    bytes.resize(begin + (content.end - content.start) as usize, 0);
                    self.read(&mut bytes[begin..], content.start)?;
                }
            }
            if bytes.len() >= PART_BYTES && !self.tell(Part::Bytes(std::mem::take(&mut bytes))) {
                return Ok(false);
            }
        }
        Ok(bytes.is_empty() || self.tell(Part::Bytes(bytes)))
    }

    /// Fills `to` from `offset` on.
    fn read(&self, mut to: &mut [u8], mut offset: u64) -> Result<(), Error> {
        while !to.is_empty() {
            match self.positions.read_at(to, offset) {
                Ok(0) => {
                    let (what, announced) = (self.what.clone(), self.content_bytes);
                    return Err(Error::SizeChanged { what, announced, read: offset });
                }
                Ok(count) => {
                    to = &mut to[count..];
                    offset += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(cause) => return Err(Error::Read { what: self.what.clone(), bytes: offset, cause }),
            }
        }
        Ok(())
    }
}

/// What the reader has next, unless it has failed.
fn next(progress: &Receiver<Progress>) -> Result<Progress, Error> {
    match progress.recv() {
        Ok(Progress::Failed(error)) => Err(error),
        Ok(progress) => Ok(progress),
        Err(_) => Err(panicked()),
    }
}

fn panicked() -> Error {
    Error::GaveUp("the reader panicked".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::ledger::SPAN_BYTES;
    use std::time::{Duration, Instant};

    const CONTENT_BYTES: u64 = 40 * SPAN_BYTES as u64;

    #[derive(Clone)]
    struct Pattern;

    impl ReadAt for Pattern {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let count = buffer.len().min(CONTENT_BYTES.saturating_sub(offset) as usize);
            buffer[..count].iter_mut().zip(offset..).for_each(|(byte, at)| *byte = (at >> 7) as u8);
            Ok(count)
        }
    }

    #[test]
    fn ledgers_of_more_spans_than_are_kept_are_made_again() {
        let waker = Arc::new(Waker::new().expect("a descriptor"));
        let (to_thread, progress) = sync_channel(40);
        let (used, _) = sync_channel(1);
        for index in 0..40 {
            let mut span = SpanBuffer::empty(ChunkSize::DEFAULT, SpanBuffer::default());
            Pattern.read_at(span.room(), index * SPAN_BYTES as u64).expect("it is made up");
            span.filled(SPAN_BYTES);
            span.seal(index);
            to_thread.send(Progress::Span(span)).expect("there is room");
        }
        let (spans, what) = (SealedSpans::new(progress, used), ("a pattern", CONTENT_BYTES));
        let manner = Manner { chunk: ChunkSize::DEFAULT, cut: Cut::None, frame_bytes: 1468, only_asks: false };
        let selecting = SelectAhead::begin(spans, Positions::new(Pattern), what, manner, &waker);
        let mut selecting = selecting.expect("a thread");
        let deadline = Instant::now() + Duration::from_secs(30);
        while !matches!(selecting.next(false), Ok(None)) {
            assert!(Instant::now() < deadline, "no ledgers");
            thread::yield_now();
        }
        let sent = selecting.bytes().to_vec();
        let mut whole = ReadAgain::new(Pattern, ChunkSize::DEFAULT, &waker);
        loop {
            match selecting.read_again(&(0..sent.len() as u64), &mut whole) {
                Again::Bytes(bytes) => return assert!(bytes == sent),
                Again::Pending => thread::yield_now(),
                Again::Impossible(why) => panic!("{why}"),
            }
            assert!(Instant::now() < deadline, "the same spans are read over and over");
        }
    }
}
