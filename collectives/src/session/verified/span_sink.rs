//! Buffer in front of a verifying receiver: collects the stream's bytes into pieces (spans) of 1
//! MiB.

use super::decoder::{DamagedChunk, Spans};
use super::layout::{ChunkSize, Form, overlap};
use super::receiver::{Offered, Order, ReceiverOutput, ReceiverState, VerifiedReceiver};
use super::selection::{HaveSet, HeldContent};
use super::span_source::{fill, read_again};
use crate::session::application::{Again, Coverage, MissingData, Sink, SinkState, VerifiedSink};
use crate::session::message::Outcome;
use crate::session::receiver::{Arrival, ReceiverEvent};
use ethbcast_transport::Instant;
use std::convert::Infallible;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Time without a complete span after which whole chunks are handed on early; at 1 Gbit/s a span
/// takes less. A killed receiver must fetch again only unwritten data.
pub(in crate::session) const EARLY_AFTER: Duration = Duration::from_millis(10);

/// The thread or simulation that runs a [`VerifiedReceiver`](super::VerifiedReceiver).
pub trait Backend {
    /// Hands an order over; [`SpanSink`] ensures that there is room.
    fn give(&mut self, now: Instant, order: Order);

    fn memory(&mut self) -> Vec<u8> {
        Vec::with_capacity(Spans::MAX_BYTES)
    }

    fn is_open(&self) -> bool {
        true
    }

    /// Lets a receiver that runs in the session's turns do its work. A verdict says that the
    /// receiver has ended without one.
    fn turn(&mut self, now: Instant) -> SinkState;

    /// Whether the stored content, with chunks of size `chunk`, is kept for other receivers.
    fn keeps(&mut self, chunk: ChunkSize) -> bool;

    /// Returns a part of the stream of a content with chunks of size `chunk`, of which
    /// `content_bytes` bytes are stored.
    fn read_again(
        &mut self,
        now: Instant,
        chunk: ChunkSize,
        part: Range<u64>,
        content_bytes: u64,
    ) -> Again<'_>;

    fn has_ended(&mut self) -> bool;
}

/// A [`Sink`] for a verified stream, which a verified receiver run by `B` checks and stores.
#[derive(Debug)]
pub struct SpanSink<B> {
    backend: B,
    state: Arc<ReceiverState>,
    most_waiting: usize,
    spans: Spans,
    went_at: Instant,
    offered: Offered,
    cause: Option<io::Error>,
    publishing: bool,
    holds: bool,
    is_selective: bool,
}

impl<B: Backend> SpanSink<B> {
    /// Creates a sink that hands orders to `backend` and shares `state`. At most `most_waiting`
    /// orders, three or more, may wait there.
    pub fn new(backend: B, state: Arc<ReceiverState>, most_waiting: usize) -> SpanSink<B> {
        SpanSink {
            backend,
            state,
            most_waiting,
            spans: Spans::default(),
            went_at: Instant::START,
            offered: Offered::default(),
            cause: None,
            publishing: false,
            holds: false,
            is_selective: false,
        }
    }

    /// Declares that this receiver may already hold part of the content; the root is notified.
    /// The verified receiver must be [holding](super::VerifiedReceiver::hold) it.
    pub fn held(self) -> SpanSink<B> {
        SpanSink {
            holds: true,
            ..self
        }
    }

    pub fn backend(&self) -> &B {
        &self.backend
    }

    pub fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }

    pub fn state(&self) -> &ReceiverState {
        &self.state
    }

    /// Whether the storage was requested to publish, and has not replied.
    pub fn is_publishing(&self) -> bool {
        self.publishing
    }

    pub fn take_cause(&mut self) -> Option<io::Error> {
        self.cause.take()
    }

    pub fn is_on_request(&self) -> bool {
        self.state.is_on_request()
    }

    pub fn damages(&self) -> u64 {
        self.state.damages()
    }

    fn form(&self) -> Form {
        Form::Verified(self.offered.chunk)
    }

    fn order(&mut self, now: Instant, order: Order) {
        self.state.order();
        self.backend.give(now, order);
    }

    fn end_span(&mut self, now: Instant) {
        if !self.spans.is_empty() {
            let span = self.spans.end();
            self.order(now, Order::Write(span));
        }
    }

    fn write(&mut self, now: Instant, mut rest: &[u8]) {
        while !rest.is_empty() {
            if self.spans.is_empty() {
                let memory = self.backend.memory();
                self.spans.begin(memory);
            }
            rest = self.spans.take(rest);
            if self.spans.is_whole() {
                self.end_span(now);
                self.went_at = now;
            }
        }
    }

    /// Hands on partial spans at once in a selective session, because the root waits for the reply
    /// to hash lists; otherwise hands on whole chunks.
    fn hand_on(&mut self, now: Instant) {
        if self.is_selective {
            self.end_span(now);
        } else if now.since(self.went_at) >= EARLY_AFTER {
            let bytes = self.spans.whole_chunks().to_vec();
            if !bytes.is_empty() {
                self.order(now, Order::Early(bytes));
                self.went_at = now;
            }
        }
    }
}

impl<B: Backend> Sink for SpanSink<B> {
    /// Whether two more orders (a last span and the end) can be given without waiting.
    fn has_room(&self) -> bool {
        self.backend.is_open() && self.state.waiting() + 2 <= self.most_waiting
    }

    fn take(&mut self, now: Instant, arrival: Arrival<'_>) {
        match arrival {
            Arrival::Bytes(bytes) | Arrival::Message(bytes) => self.write(now, bytes),
            Arrival::End(trailer) => {
                self.end_span(now);
                self.order(now, Order::End(trailer));
            }
        }
    }

    fn publish(&mut self, now: Instant) -> bool {
        if !std::mem::replace(&mut self.publishing, true) {
            self.order(now, Order::Publish);
        }
        false
    }

    fn turn(&mut self, now: Instant) -> SinkState {
        let mut state = self.backend.turn(now);
        if let Some((verdict, cause)) = self.state.take_conclusion() {
            (self.cause, self.publishing) = (cause, false);
            state.verdict = Some(verdict);
        }
        state
    }

    fn read_again(&mut self, now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        let part = offset..offset + bytes as u64;
        if !self.backend.keeps(self.offered.chunk) {
            return Again::Impossible("nothing is kept here".to_owned());
        }
        if self
            .state
            .wanted()
            .is_some_and(|(wanted, _)| overlap(&wanted, &part))
        {
            return Again::Impossible("they came damaged here, too".to_owned());
        }
        let content_bytes = self.state.content_bytes();
        if part.end <= self.form().stream_bytes(content_bytes) {
            return self
                .backend
                .read_again(now, self.offered.chunk, part, content_bytes);
        }
        // Bytes that are missing when the receiver has ended never come.
        if self.backend.has_ended() {
            Again::Impossible("they did not come here".to_owned())
        } else {
            Again::Pending
        }
    }

    fn verified(&mut self) -> Option<&mut dyn VerifiedSink> {
        Some(self)
    }
}

impl<B: Backend> VerifiedSink for SpanSink<B> {
    fn coverage(&self) -> Coverage {
        Coverage {
            form: self.form(),
            holds: self.holds,
            bytes: self.is_selective.then(|| self.state.content_bytes()),
        }
    }

    fn missing(&mut self, now: Instant) -> MissingData {
        if self.has_room() {
            self.hand_on(now);
        }
        let (wanted, is_lacking) = self.state.wanted().unzip();
        MissingData {
            wanted,
            is_lacking: is_lacking.unwrap_or_default(),
            needs: self.state.take_needs(),
            decided: self.state.decided(),
        }
    }

    fn fetched(&mut self, now: Instant, fetched: Result<(u64, &[u8]), &str>) {
        if self.state.wanted().is_some() {
            self.state.is_supplied();
            let order = match fetched {
                Ok((at, bytes)) => Order::Supply(at, bytes.to_vec()),
                Err(why) => Order::Deny(why.to_owned()),
            };
            self.order(now, order);
        }
    }

    fn on_event(&mut self, now: Instant, event: &ReceiverEvent) {
        match event {
            ReceiverEvent::Invited {
                source,
                content,
                chunk,
                ..
            } => {
                self.offered = Offered {
                    source: source.clone(),
                    size: None,
                    content: *content,
                    chunk: *chunk,
                };
            }
            ReceiverEvent::Started {
                size,
                selective,
                cipher,
                ..
            } => {
                self.offered.chunk = self.offered.chunk.signed(cipher.is_keyed());
                self.spans = Spans::new(self.offered.chunk);
                let offered = Offered {
                    size: *size,
                    ..self.offered.clone()
                };
                self.order(now, Order::Begin(offered, cipher.clone()));
                if let Some(size) = size.filter(|_| *selective) {
                    let Offered {
                        source,
                        content,
                        chunk,
                        ..
                    } = self.offered.clone();
                    self.is_selective = true;
                    self.order(
                        now,
                        Order::Complete(HeldContent {
                            source,
                            size,
                            content,
                            chunk,
                        }),
                    );
                }
            }
            _ => {}
        }
    }
}

/// Orders that may wait for a content without room: fewer than on hosts, so that the short contents
/// of simulations fill the queue.
const ORDERS_WAITING: usize = 3;

/// A [`Sink`] for a verified stream that gives the content to the sink `K`.
pub type Checked<K> = SpanSink<InTurns<K>>;

/// Runs a verified receiver whenever its session has a turn and the content has room.
#[derive(Debug)]
pub struct InTurns<K> {
    receiver: VerifiedReceiver,
    content: K,
    damages: Vec<DamagedChunk>,
    end_is_damaged: bool,
    own_bytes: u64,
    again: Vec<u8>,
}

impl<K: Sink> Checked<K> {
    pub fn checking(content: K) -> Checked<K> {
        let state = Arc::new(ReceiverState::default());
        let receiver = VerifiedReceiver::new(&state);
        let (damages, again) = (Vec::new(), Vec::new());
        let backend = InTurns {
            receiver,
            content,
            damages,
            end_is_damaged: false,
            own_bytes: 0,
            again,
        };
        SpanSink::new(backend, state, ORDERS_WAITING)
    }

    pub fn holding(mut self, holdings: Arc<dyn HaveSet>) -> Checked<K> {
        self.backend_mut().receiver.hold(holdings);
        self.held()
    }

    pub fn own_bytes(&self) -> u64 {
        self.backend().own_bytes
    }

    pub fn content(&self) -> &K {
        &self.backend().content
    }

    pub fn content_mut(&mut self) -> &mut K {
        &mut self.backend_mut().content
    }

    pub fn all_damages(&self) -> &[DamagedChunk] {
        &self.backend().damages
    }

    pub fn end_is_damaged(&self) -> bool {
        self.backend().end_is_damaged
    }
}

impl<K: Sink> InTurns<K> {
    fn turn_content(&mut self, now: Instant) -> SinkState {
        let mut state = self.content.turn(now);
        let verdict = state.verdict.take();
        match verdict.filter(|_| !self.receiver.is_over()) {
            None => {}
            Some(verdict) => match verdict.outcome {
                Outcome::Verified => self.receiver.settled(),
                Outcome::Delivered => self.receiver.published(String::new()),
                outcome => self.receiver.fail(outcome, verdict.text, None),
            },
        }
        state
    }

    fn carry_out(&mut self, now: Instant, output: ReceiverOutput) {
        match output {
            ReceiverOutput::Begin(_) | ReceiverOutput::Used(_) | ReceiverOutput::Said => {}
            ReceiverOutput::Write(bytes) => self.content.take(now, Arrival::Bytes(&bytes)),
            ReceiverOutput::Span(span) => {
                self.own_bytes += span.own_bytes();
                let write = |content: &mut K, bytes: &[u8]| {
                    content.take(now, Arrival::Bytes(bytes));
                    Ok::<_, Infallible>(())
                };
                let Ok(()) = span.store(&mut self.content, write, write);
                self.receiver.wrote();
            }
            ReceiverOutput::Damaged(damage) => self.damages.push(damage),
            ReceiverOutput::Settle {
                content,
                end_differs,
            } => {
                self.end_is_damaged = end_differs;
                self.content.take(now, Arrival::End(content));
            }
            ReceiverOutput::Publish if self.content.publish(now) => {
                self.receiver.published(String::new())
            }
            ReceiverOutput::Publish => {}
            ReceiverOutput::Failed(text) => self.receiver.fail(Outcome::Damaged, text, None),
        }
    }
}

impl<K: Sink> Backend for InTurns<K> {
    fn give(&mut self, now: Instant, order: Order) {
        self.receiver.take(order);
        self.turn(now);
    }

    /// The content's disk is busy as it was before this turn's work.
    fn turn(&mut self, now: Instant) -> SinkState {
        let mut state = self.turn_content(now);
        while self.content.has_room() {
            let Some(output) = self.receiver.poll_output() else {
                break;
            };
            self.carry_out(now, output);
            state.again_at = self.turn_content(now).again_at;
        }
        state
    }

    fn keeps(&mut self, _chunk: ChunkSize) -> bool {
        true
    }

    fn read_again(
        &mut self,
        now: Instant,
        chunk: ChunkSize,
        part: Range<u64>,
        content_bytes: u64,
    ) -> Again<'_> {
        let form = (chunk, content_bytes, self.receiver.cipher());
        read_again(&mut self.again, form, part, |begin, most, span| {
            fill(span, self.content.read_again(now, begin, most))
        })
    }

    fn has_ended(&mut self) -> bool {
        self.receiver.is_over()
    }
}
