//! The session's side of a verified sender: shows the stream that others read, hash and select.

use super::encoder::SpanBuffer;
use super::layout::{ChunkSize, Form};
use super::recent::Recent;
use super::selection::{ChunkSet, SectionPart, Sections};
use crate::session::application::{Again, Next, Source};
use crate::session::{RootEvent, Trailer};
use ethbcast_transport::{Instant, planted};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// What receivers hear when all was asked.
const ASKED: &str = "the sender has asked what is lacking, and sends nothing now (--dry-run)";

/// What a [`SpanSource`] is brought next.
#[derive(Debug)]
pub enum Brought {
    /// The next span, sealed; not where a content is selected.
    Span(SpanBuffer),
    /// The next bytes of what somebody lacks, where a content is selected.
    Part(Vec<u8>),
    /// That was all.
    End(Trailer),
    /// All was asked, and nothing is sent.
    Asked,
    /// Nothing yet.
    Nothing,
    /// Nothing before this moment.
    Until(Instant),
    /// There will be no more: all are told this sentence.
    Failed(String),
}

/// Who reads, hashes and selects a content.
pub trait Bringer {
    /// How long its chunks are.
    fn chunk(&self) -> ChunkSize;

    /// Returns what comes next; `consumed` as for [`Source::next`].
    fn bring(&mut self, now: Instant, consumed: bool) -> Brought;

    /// Takes memory that is free again.
    fn recycle(&mut self, _used: SpanBuffer) {}

    /// Whether any part of the content can be had, so that it can be selected.
    fn selects(&self) -> bool;

    /// From here on only what somebody lacks is brought, for frames of so many bytes. Returns where it is seen what
    /// has been made; `None` if nothing can be selected, which [`bring`](Bringer::bring) says.
    fn select(&mut self, frame_bytes: usize) -> Option<Arc<Mutex<Sections>>>;

    /// These chunks are brought of the next stretch.
    fn choose(&mut self, chunks: ChunkSet);

    /// Returns a part of the ledgered form of the whole content.
    fn read_whole(&mut self, now: Instant, part: Range<u64>) -> Again<'_>;

    /// Something has happened at the root.
    fn on_event(&mut self, _now: Instant, _event: &RootEvent) -> ControlFlow<String> {
        ControlFlow::Continue(())
    }
}

/// A [`Source`] of the ledgered form of a content that `B` brings.
#[derive(Debug)]
pub struct SpanSource<B> {
    bringer: B,
    /// The span that is being shown, or of a selected content the part, and how much of it has been taken.
    span: SpanBuffer,
    part: Vec<u8>,
    taken: usize,
    /// What was sent last, where the content itself cannot be read again; and what of it was asked for.
    recent: Option<Recent>,
    again: Vec<u8>,
    selecting: Option<Selecting>,
}

/// Only what somebody lacks is shown.
#[derive(Debug)]
struct Selecting {
    sections: Arc<Mutex<Sections>>,
    /// Of how many stretches it was said what is sent.
    choices: u64,
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

impl<B: Bringer> SpanSource<B> {
    /// Shows what is brought; what was sent last is kept for those who lack it.
    pub fn new(bringer: B) -> SpanSource<B> {
        let (span, part, again) = (SpanBuffer::default(), Vec::new(), Vec::new());
        SpanSource { bringer, span, part, taken: 0, recent: Some(Recent::default()), again, selecting: None }
    }

    /// The same, of which nothing is kept that has been sent.
    pub fn forgetting(self) -> SpanSource<B> {
        SpanSource { recent: None, ..self }
    }

    /// The same with another bringer of the same content.
    pub fn brought_by(self, change: impl FnOnce(B) -> B) -> SpanSource<B> {
        SpanSource { bringer: change(self.bringer), ..self }
    }

    /// Who brings it.
    pub fn bringer(&self) -> &B {
        &self.bringer
    }

    /// Who brings it.
    pub fn bringer_mut(&mut self) -> &mut B {
        &mut self.bringer
    }

    /// Whether receivers had some of the content, and were asked what they lack of all of it.
    pub fn has_asked(&self) -> bool {
        self.selecting.as_ref().is_some_and(|selecting| selecting.has_asked)
    }

    /// Whether all that was brought last has been taken.
    fn is_taken(&self) -> bool {
        self.taken == if self.selecting.is_some() { self.part.len() } else { self.span.as_bytes().len() }
    }

    /// Gives back the memory of a span that has been sent, or keeps it.
    fn put_away(&mut self) {
        if !planted!("part-shown-twice") {
            self.part.clear();
        }
        if std::mem::take(&mut self.taken) == 0 || self.selecting.is_some() {
            return;
        }
        let sent = std::mem::take(&mut self.span);
        let used = match &mut self.recent {
            Some(recent) => recent.keep(sent),
            None => Some(sent),
        };
        if let Some(used) = used {
            self.bringer.recycle(used);
        }
    }
}

impl Selecting {
    /// Makes a part of what was sent again.
    fn read_again<B: Bringer>(&mut self, now: Instant, range: &Range<u64>, bringer: &mut B) -> Again<'_> {
        let Remade { range: begun, left, bytes: made } = &mut self.again;
        if begun != range {
            (*begun, *left) = (range.clone(), self.sections.lock().parts_of(range).into());
            made.clear();
        }
        while let Some(part) = left.front() {
            match part {
                SectionPart::Bytes(bytes) => made.extend(bytes),
                SectionPart::Names(count) => made.resize(made.len() + *count as usize, 0),
                SectionPart::Whole(range) => match bringer.read_whole(now, range.clone()) {
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

impl<B: Bringer> Source for SpanSource<B> {
    fn form(&self) -> Form {
        Form::Ledgered(self.bringer.chunk())
    }

    fn selects(&self) -> bool {
        self.bringer.selects()
    }

    fn select(&mut self, frame_bytes: usize) {
        if let Some(sections) = self.bringer.select(frame_bytes) {
            self.selecting = Some(Selecting { sections, choices: 0, again: Remade::default(), has_asked: false });
        }
    }

    fn wants_choice(&self) -> Option<u64> {
        let selecting = self.selecting.as_ref()?;
        Some(selecting.choices).filter(|&next| next < selecting.sections.lock().ledgers())
    }

    fn choose(&mut self, _stretch: u64, chunks: ChunkSet) {
        if let Some(selecting) = &mut self.selecting {
            selecting.choices += 1;
            self.bringer.choose(chunks);
        }
    }

    fn read_whole(&mut self, now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        self.bringer.read_whole(now, offset..offset + bytes as u64)
    }

    fn next(&mut self, now: Instant, consumed: bool) -> Next<'_> {
        if self.is_taken() {
            self.put_away();
            if self.has_asked() {
                // Not before all know that they were only asked: they wait for whoever sends then.
                return if consumed { Next::Failed(ASKED.to_owned()) } else { Next::Nothing };
            }
            match self.bringer.bring(now, consumed) {
                Brought::Span(span) => self.span = span,
                Brought::Part(part) => self.part = part,
                Brought::End(trailer) => return Next::End(trailer),
                Brought::Asked => {
                    self.selecting.iter_mut().for_each(|selecting| selecting.has_asked = true);
                    return Next::Message { reported: true };
                }
                Brought::Nothing => return Next::Nothing,
                Brought::Until(moment) => return Next::Until(moment),
                Brought::Failed(text) => return Next::Failed(text),
            }
        }
        Next::Bytes(if self.selecting.is_some() {
            &self.part[self.taken..]
        } else {
            &self.span.as_bytes()[self.taken..]
        })
    }

    fn advance(&mut self, bytes: usize) {
        self.taken += bytes;
    }

    fn read_again(&mut self, now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        let part = offset..offset + bytes as u64;
        if let Some(selecting) = &mut self.selecting {
            return selecting.read_again(now, &part, &mut self.bringer);
        }
        if self.recent.as_ref().is_some_and(|recent| recent.copy_part(&self.span, &part, &mut self.again)) {
            return Again::Bytes(&self.again);
        }
        self.bringer.read_whole(now, part)
    }

    fn on_event(&mut self, now: Instant, event: &RootEvent) -> ControlFlow<String> {
        self.bringer.on_event(now, event)
    }
}
