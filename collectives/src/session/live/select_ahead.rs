//! Selective stream of a content, made on a thread of its own. A reader brings the whole content
//! once, from beginning to end, for the hash lists; chunks are re-read.

use super::Error;
use super::read_again::{Positions, ReadAt};
use super::reader::ReadProgress;
use crate::session::Trailer;
use crate::session::verified::{
    Brought, ChunkSet, Manner, Sections, Selected, SelectedInput, SelectedSender, SpanBuffer, SpanPlace,
};
use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, unbounded};
use crossbeam_queue::ArrayQueue;
use ethbcast_transport::packet::Waker;
use parking_lot::Mutex;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::thread;

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
    ///
    /// # Errors
    /// If the thread cannot be started.
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
        let input = Input { spans, positions, what: what.to_owned(), content_bytes };
        let work = SelectWork { input, sender, chosen, parts: to_machine, waker: Arc::clone(waker) };
        thread::Builder::new().name("select".to_owned()).spawn(|| work.run())?;
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
    pub(super) fn new(progress: Receiver<ReadProgress>, used: Arc<ArrayQueue<SpanBuffer>>) -> SealedSpans {
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
            self.chosen.try_iter().for_each(|chunks| self.sender.choose(chunks));
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
