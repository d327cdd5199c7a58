//! A sink that is given a content of which every chunk has been checked.

use super::decoder::{Damage, Decoder};
use super::layout::{ChunkSize, Form, overlap};
use super::ledgered::{fill, read_again};
use super::selection::{Completer, Completion, HeldOffer, Holdings};
use super::spans::Spans;
use crate::session::application::{Again, Sink};
use crate::session::{Done, Needs, Outcome, ReceiverEvent, Trailer};
use ethbcast_transport::Instant;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Spans that may wait for one that is damaged.
const SPANS_WAITING: usize = 2;

/// A [`Sink`] for the ledgered form of a content, which it gives to another. For simulations: on real hosts the thread
/// that writes does this.
#[derive(Clone, Debug)]
pub struct Checked<K> {
    content: K,
    chunk: ChunkSize,
    decoder: Decoder,
    spans: Spans,
    /// Spans behind the one that is damaged.
    waiting: VecDeque<Vec<u8>>,
    /// The end has come, and waits, too.
    trailer: Option<Trailer>,
    end_is_damaged: bool,
    failed: Option<Done>,
    damages: Vec<Damage>,
    /// What another receiver is given.
    again: Vec<u8>,
    holdings: Option<Arc<dyn Holdings>>,
    /// Only what somebody lacks is sent.
    completer: Option<Box<Completer>>,
    /// What is lacking, until the root is told.
    needs: VecDeque<Needs>,
    offer: HeldOffer,
    /// Content bytes that were this receiver's own.
    own_bytes: u64,
    is_only_asked: bool,
}

impl<K: Sink> Checked<K> {
    /// Gives what is right to `content`.
    pub fn new(content: K) -> Checked<K> {
        Checked {
            content,
            chunk: ChunkSize::DEFAULT,
            decoder: Decoder::default(),
            spans: Spans::default(),
            waiting: VecDeque::new(),
            trailer: None,
            end_is_damaged: false,
            failed: None,
            damages: Vec::new(),
            again: Vec::new(),
            holdings: None,
            completer: None,
            needs: VecDeque::new(),
            offer: HeldOffer::default(),
            own_bytes: 0,
            is_only_asked: false,
        }
    }

    /// The same at a receiver that may have some of the content already.
    pub fn holding(self, holdings: Arc<dyn Holdings>) -> Checked<K> {
        Checked { holdings: Some(holdings), ..self }
    }

    /// Content bytes that were this receiver's own.
    pub fn own_bytes(&self) -> u64 {
        self.own_bytes
    }

    /// Whether this receiver was only asked what it lacks.
    pub fn is_only_asked(&self) -> bool {
        self.is_only_asked
    }

    /// The sink of the content.
    pub fn content(&self) -> &K {
        &self.content
    }

    /// The sink of the content.
    pub fn content_mut(&mut self) -> &mut K {
        &mut self.content
    }

    /// What has come damaged, in the order in which that was noticed.
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    /// Whether the end of the stream said something else than has come.
    pub fn end_is_damaged(&self) -> bool {
        self.end_is_damaged
    }

    /// Goes on as far as all is right.
    fn go_on(&mut self, now: Instant) {
        loop {
            self.damages.extend(self.decoder.poll_damage());
            if let Some(content) = self.decoder.poll() {
                self.own_bytes +=
                    content.chunks().filter(|(_, own)| *own).map(|(chunk, _)| chunk.len() as u64).sum::<u64>();
                self.content.write(now, content.bytes(), false);
            }
            if self.decoder.failed().is_some() || self.decoder.wanted().is_some() {
                break;
            }
            match self.completer.as_mut().and_then(|completer| completer.poll(Vec::new)) {
                Some(Completion::Needs(needs)) => self.needs.push_back(needs),
                Some(Completion::Span(span)) => self.decoder.take_partly(span.span, span.here, span.own),
                Some(Completion::Passed) => self.is_only_asked = true,
                None => match self.waiting.pop_front() {
                    Some(span) => self.decoder.take(span),
                    None => break,
                },
            }
        }
        if let Some(text) = self.decoder.failed() {
            self.fail(text.to_owned());
        } else if let Some(trailer) = self.trailer.take_if(|_| self.decoder.wanted().is_none()) {
            self.end_is_damaged = trailer != self.decoder.trailer();
            self.content.finish(now, self.decoder.content());
        }
    }

    fn fail(&mut self, text: String) {
        let Trailer { bytes, digest } = self.decoder.trailer();
        self.failed.get_or_insert(Done { outcome: Outcome::Damaged, bytes, digest, text });
    }
}

impl<K: Sink> Sink for Checked<K> {
    fn form(&self) -> Form {
        Form::Ledgered(self.chunk)
    }

    fn holds(&self) -> bool {
        self.holdings.is_some()
    }

    fn has_room(&self) -> bool {
        let held = self.completer.is_some() && self.decoder.wanted().is_some();
        self.waiting.len() < SPANS_WAITING && !held && self.trailer.is_none() && self.content.has_room()
    }

    fn write(&mut self, now: Instant, bytes: &[u8], _message_end: bool) {
        if let Some(completer) = &mut self.completer {
            completer.take(bytes);
            return self.go_on(now);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = self.spans.take(rest);
            if self.spans.is_whole() {
                self.waiting.push_back(self.spans.end());
                self.go_on(now);
            }
        }
    }

    fn finish(&mut self, now: Instant, trailer: Trailer) {
        if !self.spans.is_empty() {
            self.waiting.push_back(self.spans.end());
        }
        self.completer.iter_mut().for_each(|completer| completer.finish());
        self.trailer = Some(trailer);
        self.go_on(now);
    }

    fn publish(&mut self, now: Instant) -> bool {
        self.content.publish(now)
    }

    fn is_syncing(&self) -> bool {
        self.content.is_syncing()
    }

    fn idle(&mut self, now: Instant) {
        self.content.idle(now);
    }

    fn verdict(&mut self, now: Instant) -> Option<Done> {
        let verdict = self.content.verdict(now);
        let content = verdict.map(|done| Done { bytes: Form::Ledgered(self.chunk).stream_bytes(done.bytes), ..done });
        self.failed.take().or(content)
    }

    fn verdict_at(&self) -> Option<Instant> {
        self.content.verdict_at()
    }

    fn wanted(&mut self) -> Option<Range<u64>> {
        self.decoder.wanted()
    }

    fn is_lacking(&self) -> bool {
        self.decoder.is_lacking()
    }

    fn poll_needs(&mut self) -> Option<Needs> {
        self.needs.pop_front()
    }

    fn decided(&self) -> u64 {
        self.completer.as_ref().map_or(0, |completer| completer.decided())
    }

    fn supply(&mut self, now: Instant, at: u64, bytes: &[u8]) {
        self.decoder.supply(at, bytes);
        self.go_on(now);
    }

    fn deny(&mut self, now: Instant, why: &str) {
        self.decoder.deny(why);
        self.go_on(now);
    }

    fn read_again(&mut self, now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        let content_bytes = self.decoder.content_bytes();
        let part = offset..offset + bytes as u64;
        if self.decoder.failed().is_some() || self.decoder.wanted().is_some_and(|wanted| overlap(&wanted, &part)) {
            return Again::Impossible("they came damaged here, too".to_owned());
        } else if part.end > self.decoder.stream_bytes() {
            return Again::Pending;
        }
        read_again(&mut self.again, (self.chunk, content_bytes), part, |begin, most, span| {
            fill(span, self.content.read_again(now, begin, most))
        })
    }

    fn on_event(&mut self, now: Instant, event: &ReceiverEvent) {
        match event {
            ReceiverEvent::Invited { source, content, chunk, .. } => {
                self.offer = HeldOffer { source: source.clone(), size: 0, content: *content, chunk: *chunk };
                (self.chunk, self.decoder, self.spans) = (*chunk, Decoder::new(*chunk), Spans::new(*chunk));
            }
            ReceiverEvent::Started { size: Some(size), selective: true, .. } => {
                let offer = HeldOffer { size: *size, ..self.offer.clone() };
                self.completer = Some(Box::new(Completer::new(&offer, self.holdings.clone())));
            }
            _ => {}
        }
        self.content.on_event(now, event);
    }
}
