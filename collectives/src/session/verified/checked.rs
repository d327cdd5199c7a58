//! Verified receiver that runs in the turns of its session, for simulations; verified content goes
//! to another sink.

use super::decoder::DamagedChunk;
use super::layout::ChunkSize;
use super::ledgered::{fill, read_again};
use super::receiver::{Order, ReceiverOutput, VerifiedReceiver};
use super::receiver_state::ReceiverState;
use super::selection::HaveSet;
use super::span_sink::{Backend, SpanSink};
use crate::session::application::{Again, Sink};
use crate::session::{Outcome, ReceiverEvent};
use ethbcast_transport::Instant;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

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
    /// Creates a sink that gives verified content to `content`.
    pub fn checking(content: K) -> Checked<K> {
        let state = Arc::new(ReceiverState::default());
        let receiver = VerifiedReceiver::new(&state);
        let (damages, again) = (Vec::new(), Vec::new());
        let backend = InTurns { receiver, content, damages, end_is_damaged: false, own_bytes: 0, again };
        SpanSink::new(backend, state, ORDERS_WAITING)
    }

    /// Adds a have-set: this receiver may already hold part of the content.
    pub fn holding(mut self, holdings: Arc<dyn HaveSet>) -> Checked<K> {
        self.backend_mut().receiver.hold(holdings);
        self.held()
    }

    /// Returns the content bytes that this receiver already held.
    pub fn own_bytes(&self) -> u64 {
        self.backend().own_bytes
    }

    /// Returns the sink of the content.
    pub fn content(&self) -> &K {
        &self.backend().content
    }

    /// Returns the sink of the content, mutably.
    pub fn content_mut(&mut self) -> &mut K {
        &mut self.backend_mut().content
    }

    /// Returns all damages, in order of detection.
    pub fn all_damages(&self) -> &[DamagedChunk] {
        &self.backend().damages
    }

    /// Whether the end of the stream contradicted the bytes received.
    pub fn end_is_damaged(&self) -> bool {
        self.backend().end_is_damaged
    }
}

impl<K: Sink> InTurns<K> {
    fn take_verdict(&mut self, now: Instant) {
        let Some(verdict) = self.content.verdict(now).filter(|_| !self.receiver.is_over()) else { return };
        match verdict.outcome {
            Outcome::Verified => self.receiver.settled(),
            Outcome::Delivered => self.receiver.published(String::new()),
            outcome => self.receiver.fail(outcome, verdict.text, None),
        }
    }

    fn carry_out(&mut self, now: Instant, output: ReceiverOutput) {
        match output {
            ReceiverOutput::Begin(_) | ReceiverOutput::Used(_) | ReceiverOutput::Said => {}
            ReceiverOutput::Write(bytes) => self.content.write(now, &bytes, false),
            ReceiverOutput::Span(span) => {
                self.own_bytes += span.own_bytes();
                let write = |content: &mut K, bytes: &[u8]| {
                    content.write(now, bytes, false);
                    Ok::<_, Infallible>(())
                };
                let Ok(()) = span.store(&mut self.content, write, write);
                self.receiver.wrote();
            }
            ReceiverOutput::Damaged(damage) => self.damages.push(damage),
            ReceiverOutput::Settle { content, end_differs } => {
                self.end_is_damaged = end_differs;
                self.content.finish(now, content);
            }
            ReceiverOutput::Publish if self.content.publish(now) => self.receiver.published(String::new()),
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

    fn turn(&mut self, now: Instant) {
        self.take_verdict(now);
        while self.content.has_room() {
            let Some(output) = self.receiver.poll_output() else { break };
            self.carry_out(now, output);
            self.take_verdict(now);
        }
    }

    fn turn_at(&self) -> Option<Instant> {
        self.content.verdict_at()
    }

    fn is_syncing(&self) -> bool {
        self.content.is_syncing()
    }

    fn keeps(&mut self, _chunk: ChunkSize) -> bool {
        true
    }

    fn read_again(&mut self, now: Instant, chunk: ChunkSize, part: Range<u64>, content_bytes: u64) -> Again<'_> {
        read_again(&mut self.again, (chunk, content_bytes), part, |begin, most, span| {
            fill(span, self.content.read_again(now, begin, most))
        })
    }

    fn has_ended(&mut self) -> bool {
        self.receiver.is_over()
    }

    fn on_event(&mut self, now: Instant, event: &ReceiverEvent) {
        self.content.on_event(now, event);
    }
}
