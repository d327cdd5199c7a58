//! Only what somebody lacks of a content, made on a thread of its own: ledgers ahead of the chunks that were chosen.

use super::Error;
use super::read_again::{Positions, ReadAgain, ReadAt};
use crate::session::Trailer;
use crate::session::application::{Again, Next};
use crate::session::ledger::{ChunkSet, Cut, Due, Form, SectionPart, Sections, Selector, SpanBuffer, SpanPlace};
use ethbcast_transport::packet::Waker;
use parking_lot::Mutex;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread;

/// Parts of the stream that are ready.
const PARTS_AHEAD: usize = 3;
/// Bytes of such a part, roughly.
const PART_BYTES: usize = 1 << 20;

#[derive(Debug)]
enum Progress {
    Part(Vec<u8>),
    End(Trailer),
    Failed(Error),
}

/// What is being selected, and by whom.
#[derive(Debug)]
pub(super) struct SelectAhead {
    progress: Receiver<Progress>,
    choices: Sender<ChunkSet>,
    /// How many have been made.
    chosen: u64,
    sections: Arc<Mutex<Sections>>,
    part: Vec<u8>,
    pushed: usize,
    /// What was made again last.
    again: Vec<u8>,
}

impl SelectAhead {
    /// Begins with a content of so many bytes, which errors call `what`.
    ///
    /// # Errors
    /// If there is no thread.
    pub(super) fn begin(
        positions: Positions,
        (what, content_bytes): (&str, u64),
        cut: Cut,
        waker: &Arc<Waker>,
    ) -> io::Result<SelectAhead> {
        let (to_machine, progress) = sync_channel(PARTS_AHEAD);
        let (choices, chosen) = channel();
        let selector = Selector::new(content_bytes, cut);
        let sections = Arc::clone(selector.sections());
        let (what, waker) = (what.to_owned(), Arc::clone(waker));
        let work = Work { positions, what, content_bytes, selector, chosen, progress: to_machine, waker };
        thread::Builder::new().name("select".to_owned()).spawn(|| work.run())?;
        Ok(SelectAhead { progress, choices, chosen: 0, sections, part: Vec::new(), pushed: 0, again: Vec::new() })
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

    /// What comes next if that is no [bytes](SelectAhead::bytes), or why there is no more.
    pub(super) fn next(&mut self) -> Result<Option<Next<'static>>, Error> {
        if self.pushed == self.part.len() {
            match self.progress.try_recv() {
                Ok(Progress::Part(part)) => (self.part, self.pushed) = (part, 0),
                Ok(Progress::End(trailer)) => return Ok(Some(Next::End(trailer))),
                Ok(Progress::Failed(error)) => return Err(error),
                Err(TryRecvError::Empty) => return Ok(Some(Next::Nothing)),
                Err(TryRecvError::Disconnected) => return Err(Error::GaveUp("the reader panicked".to_owned())),
            }
        }
        Ok(None)
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
        let (parts, content_bytes) = {
            let sections = self.sections.lock();
            (sections.parts_of(range), sections.content_bytes())
        };
        self.again.clear();
        for part in parts {
            match part {
                SectionPart::Bytes(bytes) => self.again.extend(bytes),
                SectionPart::Names(count) => self.again.resize(self.again.len() + count as usize, 0),
                SectionPart::Whole(range) => match whole.read(range, content_bytes) {
                    Again::Bytes(bytes) => self.again.extend_from_slice(bytes),
                    Again::Pending => return Again::Pending,
                    Again::Impossible(why) => return Again::Impossible(why),
                },
            }
        }
        Again::Bytes(&self.again)
    }
}

/// What the thread does.
struct Work {
    positions: Positions,
    what: String,
    content_bytes: u64,
    selector: Selector,
    chosen: Receiver<ChunkSet>,
    progress: SyncSender<Progress>,
    waker: Arc<Waker>,
}

impl Work {
    /// Makes all sections, until nobody wants them.
    fn run(mut self) {
        let last = match self.make() {
            Ok(Some(trailer)) => Progress::End(trailer),
            Ok(None) => return,
            Err(error) => Progress::Failed(error),
        };
        self.tell(last);
    }

    /// Whether it is still wanted.
    fn tell(&self, progress: Progress) -> bool {
        let wanted = self.progress.send(progress).is_ok();
        self.waker.wake();
        wanted
    }

    /// What it adds up to; none if the session has ended before.
    fn make(&mut self) -> Result<Option<Trailer>, Error> {
        loop {
            let wanted = match self.selector.due() {
                Due::Ledgers(place) => {
                    let (positions, what, size) = (&self.positions, &self.what, self.content_bytes);
                    let read = |place: &SpanPlace, buffer: &mut SpanBuffer| {
                        let room = &mut buffer.room()[..place.content_bytes()];
                        read_exact(positions, room, place.content_begin(), what, size)?;
                        buffer.filled(place.content_bytes());
                        Ok::<(), Error>(())
                    };
                    let section = self.selector.ledgers(&place, read)?;
                    // It is asked at once what is lacking of it.
                    self.tell(Progress::Part(section))
                }
                Due::Chunks(_) => match self.chosen.recv() {
                    Ok(chunks) => self.send_chunks(chunks)?,
                    Err(_) => false,
                },
                Due::End => {
                    self.check_end()?;
                    return Ok(Some(self.selector.trailer()));
                }
            };
            if !wanted {
                return Ok(None);
            }
        }
    }

    /// Sends the chunks that were chosen of the next stretch; whether it is still wanted.
    fn send_chunks(&mut self, chunks: ChunkSet) -> Result<bool, Error> {
        let whole_bytes = Form::Ledgered.stream_bytes(self.content_bytes);
        let mut bytes = Vec::new();
        for part in self.selector.chunks(chunks) {
            match part {
                SectionPart::Bytes(part) => bytes.extend(part),
                SectionPart::Names(count) => bytes.resize(bytes.len() + count as usize, 0),
                SectionPart::Whole(range) => {
                    let (content, _) = Form::Ledgered.content_of(&range, whole_bytes);
                    let begin = bytes.len();
                    bytes.resize(begin + (content.end - content.start) as usize, 0);
                    let positions = &self.positions;
                    read_exact(positions, &mut bytes[begin..], content.start, &self.what, self.content_bytes)?;
                }
            }
            if bytes.len() >= PART_BYTES && !self.tell(Progress::Part(std::mem::take(&mut bytes))) {
                return Ok(false);
            }
        }
        Ok(bytes.is_empty() || self.tell(Progress::Part(bytes)))
    }

    /// The content ends where it was to end, and whoever watches over it finds it unchanged.
    fn check_end(&self) -> Result<(), Error> {
        match self.positions.read_at(&mut [0], self.content_bytes) {
            Ok(0) => Ok(()),
            Ok(more) => Err(changed(&self.what, self.content_bytes, self.content_bytes + more as u64)),
            Err(cause) => Err(Error::Read { what: self.what.clone(), bytes: self.content_bytes, cause }),
        }
    }
}

fn changed(what: &str, announced: u64, read: u64) -> Error {
    Error::SizeChanged { what: what.to_owned(), announced, read }
}

/// Fills `to` from `offset` on.
fn read_exact(
    positions: &Positions,
    mut to: &mut [u8],
    mut offset: u64,
    what: &str,
    announced: u64,
) -> Result<(), Error> {
    while !to.is_empty() {
        match positions.read_at(to, offset) {
            Ok(0) => return Err(changed(what, announced, offset)),
            Ok(count) => {
                to = &mut to[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(cause) => return Err(Error::Read { what: what.to_owned(), bytes: offset, cause }),
        }
    }
    Ok(())
}
