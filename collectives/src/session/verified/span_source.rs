//! Output of a hashing sender: presents content and hash lists as one stream of bytes.

use super::encoder::{Encoder, Recent, SpanBuffer};
use super::layout::{ChunkSize, Form, SpanPlace};
use super::selection::{ChunkSet, Cut, SectionPart, Sections};
use super::sender::{Manner, Selected, SelectedInput, SelectedSender};
use crate::keys::ContentCipher;
use crate::session::application::{Again, Next, Source, VerifiedStream};
use crate::session::message::Trailer;
use crate::session::root::RootEvent;
use ethbcast_transport::lock::Mutex;
use ethbcast_transport::{Instant, planted};
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

const ASKED: &str = "the sender asked which data is missing, and sends nothing now (--dry-run)";

/// Output of a queue: the next sealed span, or the next bytes of a selective stream. A query ends
/// with `Asked` once all want-bitmaps were requested; the sentence of a failure is sent to all
/// receivers.
#[derive(Debug)]
pub enum Brought {
    Span(SpanBuffer),
    Part(Vec<u8>),
    End(Trailer),
    Asked,
    Nothing,
    Until(Instant),
    Failed(String),
}

pub trait InputQueue {
    fn chunk(&self) -> ChunkSize;

    /// Returns the next output; `consumed` as for [`Source::next`].
    fn bring(&mut self, now: Instant, consumed: bool) -> Brought;

    fn recycle(&mut self, _used: SpanBuffer) {}

    /// Sets the cipher of the content, before anything is brought, and with it whether hash lists
    /// are signed.
    fn protect(&mut self, _cipher: ContentCipher) {}

    fn selects(&self) -> bool;

    /// Starts a selective stream for frames of `frame_bytes` bytes. Returns the sections made so
    /// far, for re-reading; `None` if the content cannot be selected, which
    /// [`bring`](InputQueue::bring) reports.
    fn select(&mut self, frame_bytes: usize) -> Option<Arc<Mutex<Sections>>>;

    fn choose(&mut self, chunks: ChunkSet);

    fn read_whole(&mut self, now: Instant, part: Range<u64>) -> Again<'_>;

    fn on_event(&mut self, _now: Instant, _event: &RootEvent) -> ControlFlow<String> {
        ControlFlow::Continue(())
    }
}

/// A [`Source`] of the verified stream of a content that the queue `B` reads. It keeps the last
/// spans sent (`recent`) if the content itself cannot be re-read.
#[derive(Debug)]
pub struct SpanSource<B> {
    bringer: B,
    span: SpanBuffer,
    part: Vec<u8>,
    taken: usize,
    recent: Option<Recent>,
    again: Vec<u8>,
    selecting: Option<Selecting>,
}

#[derive(Debug)]
struct Selecting {
    sections: Arc<Mutex<Sections>>,
    choices: u64,
    again: Remade,
    has_asked: bool,
}

/// A part of the selective stream that is being re-created. Reading the hash lists of a stretch
/// takes more spans than are kept, so finished pieces are not made twice.
#[derive(Debug, Default)]
struct Remade {
    range: Range<u64>,
    left: VecDeque<SectionPart>,
    bytes: Vec<u8>,
}

impl<B: InputQueue> SpanSource<B> {
    /// Creates a source; the last spans sent are kept for repairs.
    pub fn new(bringer: B) -> SpanSource<B> {
        let (span, part, again) = (SpanBuffer::default(), Vec::new(), Vec::new());
        SpanSource {
            bringer,
            span,
            part,
            taken: 0,
            recent: Some(Recent::default()),
            again,
            selecting: None,
        }
    }

    pub fn forgetting(self) -> SpanSource<B> {
        SpanSource {
            recent: None,
            ..self
        }
    }

    pub fn brought_by(self, change: impl FnOnce(B) -> B) -> SpanSource<B> {
        SpanSource {
            bringer: change(self.bringer),
            ..self
        }
    }

    pub fn bringer(&self) -> &B {
        &self.bringer
    }

    pub fn bringer_mut(&mut self) -> &mut B {
        &mut self.bringer
    }

    /// Whether the want-bitmaps of receivers that hold part of the content were queried for all of
    /// it.
    pub fn has_requested(&self) -> bool {
        self.selecting
            .as_ref()
            .is_some_and(|selecting| selecting.has_asked)
    }

    fn is_taken(&self) -> bool {
        self.taken
            == if self.selecting.is_some() {
                self.part.len()
            } else {
                self.span.as_bytes().len()
            }
    }

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
    fn read_again<B: InputQueue>(
        &mut self,
        now: Instant,
        range: &Range<u64>,
        bringer: &mut B,
    ) -> Again<'_> {
        let Remade {
            range: begun,
            left,
            bytes: made,
        } = &mut self.again;
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

impl<B: InputQueue> Source for SpanSource<B> {
    fn form(&self) -> Form {
        Form::Verified(self.bringer.chunk())
    }

    fn next(&mut self, now: Instant, consumed: bool) -> Next<'_> {
        if self.is_taken() {
            self.put_away();
            if self.has_requested() {
                // The failure comes once all receivers know that this was a query; they go on
                // waiting for a sender.
                return if consumed {
                    Next::Failed(ASKED.to_owned())
                } else {
                    Next::Nothing
                };
            }
            match self.bringer.bring(now, consumed) {
                Brought::Span(span) => self.span = span,
                Brought::Part(part) => self.part = part,
                Brought::End(trailer) => return Next::End(trailer),
                Brought::Asked => {
                    self.selecting
                        .iter_mut()
                        .for_each(|selecting| selecting.has_asked = true);
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
        if self
            .recent
            .as_ref()
            .is_some_and(|recent| recent.copy_part(&self.span, &part, &mut self.again))
        {
            return Again::Bytes(&self.again);
        }
        self.bringer.read_whole(now, part)
    }

    fn on_event(&mut self, now: Instant, event: &RootEvent) -> ControlFlow<String> {
        self.bringer.on_event(now, event)
    }

    fn verified(&mut self) -> Option<&mut dyn VerifiedStream> {
        Some(self)
    }
}

impl<B: InputQueue> VerifiedStream for SpanSource<B> {
    fn protect(&mut self, cipher: ContentCipher) {
        self.bringer.protect(cipher);
    }

    fn selects(&self) -> bool {
        self.bringer.selects()
    }

    fn select(&mut self, frame_bytes: usize) {
        if let Some(sections) = self.bringer.select(frame_bytes) {
            self.selecting = Some(Selecting {
                sections,
                choices: 0,
                again: Remade::default(),
                has_asked: false,
            });
        }
    }

    fn wants_choice(&self) -> Option<u64> {
        let selecting = self.selecting.as_ref()?;
        Some(selecting.choices).filter(|&next| next < selecting.sections.lock().hash_lists())
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

    fn covered(&self, stream: u64) -> Option<u64> {
        Some(self.selecting.as_ref()?.sections.lock().covered(stream))
    }
}

/// A [`Source`] of the verified stream of a source `S`, which must not have messages.
pub type VerifiedSource<S> = SpanSource<ReadInTurns<S>>;

/// Reads a content whenever its session has a turn.
#[derive(Debug)]
pub struct ReadInTurns<S> {
    content: S,
    chunk: ChunkSize,
    encoder: Encoder,
    span: SpanBuffer,
    ended: bool,
    again: Vec<u8>,
    selects: Option<(u64, Cut)>,
    selected: Option<SelectedSender>,
}

impl<S: Source> VerifiedSource<S> {
    pub fn of(content: S) -> VerifiedSource<S> {
        let chunk = ChunkSize::DEFAULT;
        let span = SpanBuffer::empty(chunk, SpanBuffer::default());
        let (encoder, again, selects, selected) = (Encoder::default(), Vec::new(), None, None);
        SpanSource::new(ReadInTurns {
            content,
            chunk,
            encoder,
            span,
            ended: false,
            again,
            selects,
            selected,
        })
    }

    pub fn chunked(self, chunk: ChunkSize) -> VerifiedSource<S> {
        let (encoder, span) = (
            Encoder::new(chunk),
            SpanBuffer::empty(chunk, SpanBuffer::default()),
        );
        self.brought_by(|reader| ReadInTurns {
            chunk,
            encoder,
            span,
            ..reader
        })
    }

    /// Makes the session selective where receivers already hold part of the content, which has
    /// `content_bytes` bytes and can be re-read anywhere. `cut` selects how fragments are cut.
    pub fn selecting(self, content_bytes: u64, cut: Cut) -> VerifiedSource<S> {
        self.brought_by(|reader| ReadInTurns {
            selects: Some((content_bytes, cut)),
            ..reader
        })
    }

    pub fn content(&self) -> &S {
        &self.bringer().content
    }
}

impl<S: Source> ReadInTurns<S> {
    fn fill(&mut self, now: Instant, consumed: bool) -> Result<(), Brought> {
        while !self.ended && !self.span.is_full() {
            let count = match self.content.next(now, consumed) {
                Next::Bytes(bytes) => {
                    let room = self.span.room();
                    let count = bytes.len().min(room.len());
                    room[..count].copy_from_slice(&bytes[..count]);
                    count
                }
                Next::End(_) => {
                    self.ended = true;
                    break;
                }
                Next::Message { .. } => {
                    return Err(Brought::Failed("a content has no messages".to_owned()));
                }
                Next::Nothing => return Err(Brought::Nothing),
                Next::Until(moment) => return Err(Brought::Until(moment)),
                Next::Failed(text) => return Err(Brought::Failed(text)),
            };
            self.span.filled(count);
            self.content.advance(count);
        }
        if self.span.content_bytes() > 0 {
            self.encoder.seal(&mut self.span);
        }
        Ok(())
    }
}

struct Anywhere<'a, S> {
    now: Instant,
    content: &'a mut S,
    chunk: ChunkSize,
    encoder: &'a mut Encoder,
}

impl<S: Source> SelectedInput for Anywhere<'_, S> {
    type Error = String;

    fn span(&mut self, place: &SpanPlace, used: SpanBuffer) -> Result<SpanBuffer, String> {
        let mut span = SpanBuffer::empty(self.chunk, used);
        let again = self
            .content
            .read_again(self.now, place.content_begin(), place.content_bytes());
        fill(&mut span, again)
            .map_err(|other| format!("a content that is all there: {other:?}"))?;
        self.encoder.seal(&mut span);
        Ok(span)
    }

    fn read(&mut self, to: &mut [u8], offset: u64) -> Result<(), String> {
        match self.content.read_again(self.now, offset, to.len()) {
            Again::Bytes(bytes) => {
                to.copy_from_slice(bytes);
                Ok(())
            }
            other => Err(format!("a content that is all there: {other:?}")),
        }
    }

    fn end(&mut self) -> Result<Trailer, String> {
        Ok(self.encoder.trailer())
    }
}

impl<S: Source> InputQueue for ReadInTurns<S> {
    fn chunk(&self) -> ChunkSize {
        self.chunk
    }

    fn bring(&mut self, now: Instant, consumed: bool) -> Brought {
        if let Some(selected) = &mut self.selected {
            let (content, chunk, encoder) = (&mut self.content, self.chunk, &mut self.encoder);
            return match selected.next(&mut Anywhere {
                now,
                content,
                chunk,
                encoder,
            }) {
                Ok(Selected::Part(part)) => Brought::Part(part),
                Ok(Selected::NeedsChoice) => Brought::Nothing,
                Ok(Selected::End(trailer)) => Brought::End(trailer),
                Ok(Selected::Asked) => Brought::Asked,
                Err(text) => Brought::Failed(text),
            };
        }
        match self.fill(now, consumed) {
            Err(none) => none,
            Ok(()) if self.span.content_bytes() == 0 => Brought::End(self.encoder.trailer()),
            Ok(()) => {
                let next = SpanBuffer::empty(self.chunk, SpanBuffer::default());
                Brought::Span(std::mem::replace(&mut self.span, next))
            }
        }
    }

    fn recycle(&mut self, used: SpanBuffer) {
        if self.span.content_bytes() == 0 {
            self.span = SpanBuffer::empty(self.chunk, used);
        }
    }

    fn protect(&mut self, cipher: ContentCipher) {
        self.chunk = self.chunk.signed(cipher.is_keyed());
        self.span = SpanBuffer::empty(self.chunk, std::mem::take(&mut self.span));
        self.encoder = std::mem::take(&mut self.encoder).ciphered(cipher);
    }

    fn selects(&self) -> bool {
        self.selects.is_some()
    }

    fn select(&mut self, frame_bytes: usize) -> Option<Arc<Mutex<Sections>>> {
        let (content_bytes, cut) = self.selects?;
        let cipher = self.encoder.cipher().clone();
        let manner = Manner {
            chunk: self.chunk,
            cipher,
            cut,
            frame_bytes,
            requests_only: false,
        };
        let selected = self
            .selected
            .insert(SelectedSender::new(content_bytes, manner));
        Some(Arc::clone(selected.sections()))
    }

    fn choose(&mut self, chunks: ChunkSet) {
        self.selected
            .iter_mut()
            .for_each(|selected| selected.choose(chunks));
    }

    fn read_whole(&mut self, now: Instant, part: Range<u64>) -> Again<'_> {
        let content_bytes = match (&self.selected, self.selects) {
            (Some(_), Some((content_bytes, _))) => content_bytes,
            _ => self.encoder.content_bytes(),
        };
        let form = (self.chunk, content_bytes, self.encoder.cipher());
        read_again(&mut self.again, form, part, |begin, most, span| {
            fill(span, self.content.read_again(now, begin, most))
        })
    }

    fn on_event(&mut self, now: Instant, event: &RootEvent) -> ControlFlow<String> {
        self.content.on_event(now, event)
    }
}

pub(super) fn fill(span: &mut SpanBuffer, again: Again<'_>) -> Result<(), Again<'static>> {
    match again {
        Again::Bytes(content) => {
            span.room()[..content.len()].copy_from_slice(content);
            span.filled(content.len());
            Ok(())
        }
        Again::Pending => Err(Again::Pending),
        Again::Impossible(why) => Err(Again::Impossible(why)),
    }
}

/// Re-creates a part of the stream in `memory`, from a content of `content_bytes` bytes with chunks
/// of size `chunk` and this cipher; `read` reads the content.
pub(super) fn read_again<'a>(
    memory: &'a mut Vec<u8>,
    (chunk, content_bytes, cipher): (ChunkSize, u64, &ContentCipher),
    part: Range<u64>,
    mut read: impl FnMut(u64, usize, &mut SpanBuffer) -> Result<(), Again<'static>>,
) -> Again<'a> {
    memory.clear();
    for place in SpanPlace::all_of(chunk, &part, content_bytes) {
        let mut span = SpanBuffer::empty(chunk, SpanBuffer::default());
        if let Err(none) = read(place.content_begin(), place.content_bytes(), &mut span) {
            return none;
        }
        span.seal_by(place.index(), cipher);
        span.copy_part(place.index(), &part, memory);
    }
    if memory.len() as u64 == part.end - part.start {
        return Again::Bytes(memory);
    }
    Again::Impossible("there are no such bytes".to_owned())
}
