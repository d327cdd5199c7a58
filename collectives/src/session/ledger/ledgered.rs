//! A source whose content is sent in its ledgered form.

use super::encoder::{Encoder, SpanBuffer};
use super::layout::{ChunkSize, Form, SpanPlace};
use super::recent::Recent;
use super::selection::{ChunkSet, Cut, Due, SectionPart, Selector};
use crate::session::RootEvent;
use crate::session::application::{Again, Next, Source};
use ethbcast_transport::Instant;
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

/// A [`Source`] of the ledgered form of what another has, which must not have messages. For simulations: on real hosts
/// the thread that reads does this.
#[derive(Clone, Debug)]
pub struct Ledgered<S> {
    content: S,
    chunk: ChunkSize,
    encoder: Encoder,
    span: SpanBuffer,
    /// How much of the span has been taken.
    taken: usize,
    /// The content has come to its end.
    ended: bool,
    /// What was sent last, if that is kept.
    recent: Option<Recent>,
    /// What is sent again.
    again: Vec<u8>,
    /// How many bytes the content has, and how its fragments are named, if any part of it can be had.
    selects: Option<(u64, Cut)>,
    selecting: Option<Box<Selecting>>,
}

/// Only what somebody lacks is sent.
#[derive(Clone, Debug)]
struct Selecting {
    selector: Selector,
    /// What is sent of the stretches that are next.
    chosen: VecDeque<ChunkSet>,
    /// Of how many that was said.
    choices: u64,
    section: VecDeque<SectionPart>,
    /// The part that is being sent, and how much of it has been taken.
    part: Vec<u8>,
    taken: usize,
}

impl<S: Source> Ledgered<S> {
    /// What `content` has, with its ledgers.
    pub fn new(content: S) -> Ledgered<S> {
        let chunk = ChunkSize::DEFAULT;
        let span = SpanBuffer::empty(chunk, SpanBuffer::default());
        let (encoder, recent) = (Encoder::default(), Some(Recent::default()));
        let (again, selects, selecting) = (Vec::new(), None, None);
        Ledgered { content, chunk, encoder, span, taken: 0, ended: false, recent, again, selects, selecting }
    }

    /// The same with chunks that are so long.
    pub fn chunked(self, chunk: ChunkSize) -> Ledgered<S> {
        let (encoder, span) = (Encoder::new(chunk), SpanBuffer::empty(chunk, SpanBuffer::default()));
        Ledgered { chunk, encoder, span, ..self }
    }

    /// The same, of which nothing is kept that has been sent.
    pub fn forgetting(self) -> Ledgered<S> {
        Ledgered { recent: None, ..self }
    }

    /// The same of a content of so many bytes any part of which can be read again: where receivers have some of it,
    /// only what somebody lacks is shown. Its fragments are named as `cut` says.
    pub fn selecting(self, content_bytes: u64, cut: Cut) -> Ledgered<S> {
        Ledgered { selects: Some((content_bytes, cut)), ..self }
    }

    /// The source of the content.
    pub fn content(&self) -> &S {
        &self.content
    }

    /// Fills the next span and seals it; or says why there is none yet.
    fn fill(&mut self, now: Instant, consumed: bool) -> Result<(), Next<'static>> {
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
                Next::Message { .. } => return Err(Next::Failed("a content has no messages".to_owned())),
                Next::Nothing => return Err(Next::Nothing),
                Next::Until(moment) => return Err(Next::Until(moment)),
                Next::Failed(text) => return Err(Next::Failed(text)),
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

impl<S: Source> Ledgered<S> {
    /// What comes next of what somebody lacks.
    fn next_selected(&mut self, now: Instant) -> Next<'_> {
        let Some(selecting) = &mut self.selecting else { return Next::Nothing };
        while selecting.taken == selecting.part.len() {
            selecting.taken = 0;
            if let Some(part) = selecting.section.pop_front() {
                selecting.part = match part {
                    SectionPart::Bytes(bytes) => bytes,
                    SectionPart::Names(bytes) => vec![0; bytes as usize],
                    SectionPart::Whole(range) => {
                        let content_bytes = selecting.selector.sections().lock().content_bytes();
                        let read =
                            |begin, most, span: &mut SpanBuffer| fill(span, self.content.read_again(now, begin, most));
                        match read_again(&mut self.again, (self.chunk, content_bytes), range, read) {
                            Again::Bytes(bytes) => bytes.to_vec(),
                            other => return Next::Failed(format!("a content that is all there: {other:?}")),
                        }
                    }
                };
                continue;
            }
            selecting.part = Vec::new();
            match selecting.selector.due() {
                Due::Ledgers(place) => {
                    let (content, chunk, encoder) = (&mut self.content, self.chunk, &mut self.encoder);
                    let section = selecting.selector.ledgers(&place, |place, used| {
                        let mut span = SpanBuffer::empty(chunk, used);
                        fill(&mut span, content.read_again(now, place.content_begin(), place.content_bytes()))?;
                        encoder.seal(&mut span);
                        Ok::<_, Again<'static>>(span)
                    });
                    match section {
                        Ok(section) => selecting.part = section,
                        Err(other) => return Next::Failed(format!("a content that is all there: {other:?}")),
                    }
                }
                Due::Chunks(_) => {
                    if let Some(chunks) = selecting.chosen.pop_front() {
                        selecting.section = selecting.selector.chunks(chunks).into();
                    } else if let Some(padding) = selecting.selector.padding() {
                        selecting.part = padding;
                    } else {
                        return Next::Nothing;
                    }
                }
                Due::End => return Next::End(self.encoder.trailer()),
            }
        }
        Next::Bytes(&selecting.part[selecting.taken..])
    }

    /// Makes parts of sections again.
    fn read_parts(&mut self, now: Instant, parts: Vec<SectionPart>) -> Again<'_> {
        let mut bytes = Vec::new();
        for part in parts {
            match part {
                SectionPart::Bytes(part) => bytes.extend(part),
                SectionPart::Names(count) => bytes.resize(bytes.len() + count as usize, 0),
                SectionPart::Whole(range) => {
                    match self.read_whole(now, range.start, (range.end - range.start) as usize) {
                        Again::Bytes(part) => bytes.extend_from_slice(part),
                        Again::Pending => return Again::Pending,
                        Again::Impossible(why) => return Again::Impossible(why),
                    }
                }
            }
        }
        self.again = bytes;
        Again::Bytes(&self.again)
    }
}

/// Fills a span with what there is; or says why there is nothing.
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

/// Makes a part of the stream again, into `memory`, from a content with chunks that are so long, of so many bytes, of
/// which `read` has any.
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

impl<S: Source> Source for Ledgered<S> {
    fn form(&self) -> Form {
        Form::Ledgered(self.chunk)
    }

    fn selects(&self) -> bool {
        self.selects.is_some()
    }

    fn select(&mut self, frame_bytes: usize) {
        let Some((content_bytes, cut)) = self.selects else { return };
        let selector = Selector::new(self.chunk, content_bytes, cut, frame_bytes);
        let (chosen, section) = (VecDeque::new(), VecDeque::new());
        let part = Vec::new();
        self.selecting = Some(Box::new(Selecting { selector, chosen, choices: 0, section, part, taken: 0 }));
    }

    fn wants_choice(&self) -> Option<u64> {
        let selecting = self.selecting.as_ref()?;
        Some(selecting.choices).filter(|&next| next < selecting.selector.sections().lock().ledgers())
    }

    fn choose(&mut self, _stretch: u64, chunks: ChunkSet) {
        if let Some(selecting) = &mut self.selecting {
            selecting.choices += 1;
            selecting.chosen.push_back(chunks);
        }
    }

    fn read_whole(&mut self, now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        let Some(selecting) = &self.selecting else { return self.read_again(now, offset, bytes) };
        let content_bytes = selecting.selector.sections().lock().content_bytes();
        read_again(&mut self.again, (self.chunk, content_bytes), offset..offset + bytes as u64, |begin, most, span| {
            fill(span, self.content.read_again(now, begin, most))
        })
    }

    fn next(&mut self, now: Instant, consumed: bool) -> Next<'_> {
        if self.selecting.is_some() {
            return self.next_selected(now);
        }
        if self.taken == self.span.as_bytes().len() {
            if self.taken > 0 {
                let sent = std::mem::take(&mut self.span);
                let used = if let Some(recent) = &mut self.recent { recent.keep(sent) } else { Some(sent) };
                self.span = SpanBuffer::empty(self.chunk, used.unwrap_or_default());
                self.taken = 0;
            }
            if let Err(none) = self.fill(now, consumed) {
                return none;
            }
        }
        match &self.span.as_bytes()[self.taken..] {
            [] => Next::End(self.encoder.trailer()),
            rest => Next::Bytes(rest),
        }
    }

    fn advance(&mut self, bytes: usize) {
        if let Some(selecting) = &mut self.selecting {
            selecting.taken += bytes;
            return;
        }
        self.taken += bytes;
    }

    fn read_again(&mut self, now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        let part = offset..offset + bytes as u64;
        if let Some(selecting) = &self.selecting {
            let parts = selecting.selector.sections().lock().parts_of(&part);
            return self.read_parts(now, parts);
        }
        let content_bytes = self.encoder.content_bytes();
        if self.recent.as_ref().is_some_and(|recent| recent.copy_part(&self.span, &part, &mut self.again)) {
            return Again::Bytes(&self.again);
        }
        read_again(&mut self.again, (self.chunk, content_bytes), part, |begin, most, span| {
            fill(span, self.content.read_again(now, begin, most))
        })
    }

    fn on_event(&mut self, now: Instant, event: &RootEvent) -> ControlFlow<String> {
        self.content.on_event(now, event)
    }
}
