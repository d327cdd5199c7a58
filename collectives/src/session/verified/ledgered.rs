//! Verified sender that runs in the turns of its session, for simulations: another source's content
//! with its hash lists.

use super::encoder::{Encoder, SpanBuffer};
use super::layout::{ChunkSize, SpanPlace};
use super::selection::{ChunkSet, Cut, Sections};
use super::sender::{Manner, Selected, SelectedInput, SelectedSender};
use super::span_source::{Brought, InputQueue, SpanSource};
use crate::session::application::{Again, Next, Source};
use crate::session::{RootEvent, Trailer};
use ethbcast_transport::Instant;
use parking_lot::Mutex;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// A [`Source`] of the verified stream of a source `S`, which must not have messages.
pub type Ledgered<S> = SpanSource<ReadInTurns<S>>;

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

impl<S: Source> Ledgered<S> {
    /// Creates the verified stream of `content`.
    pub fn of(content: S) -> Ledgered<S> {
        let chunk = ChunkSize::DEFAULT;
        let span = SpanBuffer::empty(chunk, SpanBuffer::default());
        let (encoder, again, selects, selected) = (Encoder::default(), Vec::new(), None, None);
        SpanSource::new(ReadInTurns { content, chunk, encoder, span, ended: false, again, selects, selected })
    }

    /// Sets the chunk size.
    pub fn chunked(self, chunk: ChunkSize) -> Ledgered<S> {
        let (encoder, span) = (Encoder::new(chunk), SpanBuffer::empty(chunk, SpanBuffer::default()));
        self.brought_by(|reader| ReadInTurns { chunk, encoder, span, ..reader })
    }

    /// Makes the session selective where receivers already hold part of the content, which has
    /// `content_bytes` bytes and can be re-read anywhere. `cut` selects how fragments are cut.
    pub fn selecting(self, content_bytes: u64, cut: Cut) -> Ledgered<S> {
        self.brought_by(|reader| ReadInTurns { selects: Some((content_bytes, cut)), ..reader })
    }

    /// Returns the source of the content.
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
                Next::Message { .. } => return Err(Brought::Failed("a content has no messages".to_owned())),
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
        let again = self.content.read_again(self.now, place.content_begin(), place.content_bytes());
        fill(&mut span, again).map_err(|other| format!("a content that is all there: {other:?}"))?;
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
            return match selected.next(&mut Anywhere { now, content, chunk, encoder }) {
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

    fn selects(&self) -> bool {
        self.selects.is_some()
    }

    fn select(&mut self, frame_bytes: usize) -> Option<Arc<Mutex<Sections>>> {
        let (content_bytes, cut) = self.selects?;
        let manner = Manner { chunk: self.chunk, cut, frame_bytes, only_asks: false };
        let selected = self.selected.insert(SelectedSender::new(content_bytes, manner));
        Some(Arc::clone(selected.sections()))
    }

    fn choose(&mut self, chunks: ChunkSet) {
        self.selected.iter_mut().for_each(|selected| selected.choose(chunks));
    }

    fn read_whole(&mut self, now: Instant, part: Range<u64>) -> Again<'_> {
        let content_bytes = match (&self.selected, self.selects) {
            (Some(_), Some((content_bytes, _))) => content_bytes,
            _ => self.encoder.content_bytes(),
        };
        read_again(&mut self.again, (self.chunk, content_bytes), part, |begin, most, span| {
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
/// of size `chunk`; `read` reads the content.
pub(super) fn read_again<'a>(
    memory: &'a mut Vec<u8>,
    (chunk, content_bytes): (ChunkSize, u64),
    part: Range<u64>,
    mut read: impl FnMut(u64, usize, &mut SpanBuffer) -> Result<(), Again<'static>>,
) -> Again<'a> {
    memory.clear();
    for place in SpanPlace::all_of(chunk, &part, content_bytes) {
        let mut span = SpanBuffer::empty(chunk, SpanBuffer::default());
        if let Err(none) = read(place.content_begin(), place.content_bytes(), &mut span) {
            return none;
        }
        span.seal(place.index());
        span.copy_part(place.index(), &part, memory);
    }
    if memory.len() as u64 == part.end - part.start {
        return Again::Bytes(memory);
    }
    Again::Impossible("there are no such bytes".to_owned())
}
