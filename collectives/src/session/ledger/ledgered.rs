//! A source whose content is sent in its ledgered form.

use super::encoder::{Encoder, SpanBuffer};
use super::layout::{Form, SpanPlace};
use super::recent::Recent;
use crate::session::RootEvent;
use crate::session::application::{Again, Next, Source};
use ethbcast_transport::Instant;
use std::ops::{ControlFlow, Range};

/// A [`Source`] of the ledgered form of what another has, which must not have messages. For simulations: on real hosts
/// the thread that reads does this.
#[derive(Clone, Debug)]
pub struct Ledgered<S> {
    content: S,
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
}

impl<S: Source> Ledgered<S> {
    /// What `content` has, with its ledgers.
    pub fn new(content: S) -> Ledgered<S> {
        let span = SpanBuffer::empty(SpanBuffer::default());
        let (encoder, recent) = (Encoder::default(), Some(Recent::default()));
        Ledgered { content, encoder, span, taken: 0, ended: false, recent, again: Vec::new() }
    }

    /// The same, of which nothing is kept that has been sent.
    pub fn forgetting(self) -> Ledgered<S> {
        Ledgered { recent: None, ..self }
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

/// Makes a part of the stream again, into `memory`, from a content of so many bytes of which `read` has any.
pub(super) fn read_again<'a>(
    memory: &'a mut Vec<u8>,
    content_bytes: u64,
    part: Range<u64>,
    mut read: impl FnMut(u64, usize, &mut SpanBuffer) -> Result<(), Again<'static>>,
) -> Again<'a> {
    memory.clear();
    for place in SpanPlace::all_of(&part, content_bytes) {
        let mut span = SpanBuffer::empty(SpanBuffer::default());
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
        Form::Ledgered
    }

    fn next(&mut self, now: Instant, consumed: bool) -> Next<'_> {
        if self.taken == self.span.as_bytes().len() {
            if self.taken > 0 {
                let sent = std::mem::take(&mut self.span);
                let used = if let Some(recent) = &mut self.recent { recent.keep(sent) } else { Some(sent) };
                self.span = SpanBuffer::empty(used.unwrap_or_default());
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
        self.taken += bytes;
    }

    fn read_again(&mut self, now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        let content_bytes = self.encoder.content_bytes();
        let part = offset..offset + bytes as u64;
        if self.recent.as_ref().is_some_and(|recent| recent.copy_part(&self.span, &part, &mut self.again)) {
            return Again::Bytes(&self.again);
        }
        read_again(&mut self.again, content_bytes, part, |begin, most, span| {
            fill(span, self.content.read_again(now, begin, most))
        })
    }

    fn on_event(&mut self, now: Instant, event: &RootEvent) -> ControlFlow<String> {
        self.content.on_event(now, event)
    }
}
