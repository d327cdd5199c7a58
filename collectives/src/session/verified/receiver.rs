//! Receiving end of a stream with interleaved hashes: verifies, requests damaged chunks again,
//! returns what to store.
//!
//! [`VerifiedReceiver`] takes [`Order`]s and returns [`ReceiverOutput`]s; its driver carries each
//! of them out before it asks for the next. On hosts a thread does that beside the session, in
//! simulations the session's own turn. The session's side is [`SpanSink`](super::SpanSink); both
//! share the [`ReceiverState`](super::ReceiverState).

use super::decoder::{DamagedChunk, DecodedContent, Decoder, Spans};
use super::hash::{Alone, HashPool};
use super::layout::ChunkSize;
use super::selection::{Completed, Completer, Completion, HaveSet, HeldContent};
use crate::keys::ContentCipher;
use crate::session::message::{ContentKind, Done, Needs, Outcome, Trailer};
use ethbcast_transport::lock::Mutex;
use ethbcast_transport::planted;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The session parameters that describe the content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// Name at the sender.
    pub source: String,
    /// Size in bytes, if known in advance.
    pub size: Option<u64>,
    /// Kind of the content.
    pub content: ContentKind,
    /// Size of its chunks.
    pub chunk: ChunkSize,
}

/// An order of a session to its verified receiver.
#[derive(Debug)]
pub enum Order {
    Begin(Offered, ContentCipher),
    /// Part of the content may be here already: only missing chunks come.
    Complete(HeldContent),
    /// The next span, or the next bytes of a selective session.
    Write(Vec<u8>),
    Early(Vec<u8>),
    /// Bytes of a range that was requested again, from this byte of the stream on.
    Supply(u64, Vec<u8>),
    Deny(String),
    End(Trailer),
    /// The root has accepted the digest.
    Publish,
}

/// An output of a verified receiver, which its driver carries out.
#[derive(Debug)]
pub enum ReceiverOutput {
    Begin(Offered),
    Write(Vec<u8>),
    /// Verified span to store next; call [`wrote`](VerifiedReceiver::wrote) once it is stored.
    Span(RightSpan),
    /// Memory for reuse.
    Used(Vec<u8>),
    /// The [`ReceiverState`] has changed, which the session's side should read.
    Said,
    Damaged(DamagedChunk),
    /// The data has all come: make it durable, then call [`settled`](VerifiedReceiver::settled).
    Settle {
        content: Trailer,
        /// Whether the received trailer differs from the bytes received.
        end_differs: bool,
    },
    /// Make the content visible under its name, then call
    /// [`published`](VerifiedReceiver::published).
    Publish,
    /// The content has failed for this reason; call [`fail`](VerifiedReceiver::fail).
    Failed(String),
}

#[derive(Debug)]
pub struct RightSpan {
    content: DecodedContent,
    in_place: u64,
}

impl RightSpan {
    /// Stores the chunks in order: `keep` for those already in place, `write` for the others, in
    /// runs as long as possible.
    ///
    /// # Errors
    /// The first that either returns.
    pub fn store<T, E>(
        &self,
        to: &mut T,
        write: impl Fn(&mut T, &[u8]) -> Result<(), E>,
        keep: impl Fn(&mut T, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.in_place == 0 {
            return write(to, self.content.bytes());
        }
        for (number, (chunk, own)) in self.content.chunks().enumerate() {
            let stays = own && self.in_place >> number & 1 == 1;
            if stays {
                keep(to, chunk)?
            } else {
                write(to, chunk)?
            }
        }
        Ok(())
    }

    pub fn own_bytes(&self) -> u64 {
        self.content
            .chunks()
            .filter(|(_, own)| *own)
            .map(|(chunk, _)| chunk.len() as u64)
            .sum()
    }

    pub fn into_memory(self) -> Vec<u8> {
        self.content.into_memory()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VerifiedPhase {
    Coming,
    /// The storage settles or publishes the content; no orders are taken meanwhile.
    Syncing,
    Over,
}

/// Verifies a stream and completes it.
#[derive(Debug)]
pub struct VerifiedReceiver {
    state: Arc<ReceiverState>,
    hash_pool: fn() -> Arc<dyn HashPool>,
    decoder: Decoder,
    holdings: Option<Arc<dyn HaveSet>>,
    completer: Option<Completer>,
    /// Whether the wanted range was reported and has not come since. It is not reported again,
    /// because bytes in flight would be requested twice.
    asked: bool,
    in_place: u64,
    waiting: VecDeque<Order>,
    phase: VerifiedPhase,
}

impl VerifiedReceiver {
    pub fn new(state: &Arc<ReceiverState>) -> VerifiedReceiver {
        VerifiedReceiver {
            state: Arc::clone(state),
            hash_pool: || Arc::new(Alone),
            decoder: Decoder::default(),
            holdings: None,
            completer: None,
            asked: false,
            in_place: 0,
            waiting: VecDeque::new(),
            phase: VerifiedPhase::Coming,
        }
    }

    pub fn hashed_by(self, hash_pool: fn() -> Arc<dyn HashPool>) -> VerifiedReceiver {
        VerifiedReceiver { hash_pool, ..self }
    }

    pub fn hold(&mut self, holdings: Arc<dyn HaveSet>) {
        self.holdings = Some(holdings);
    }

    /// Takes an order. Bytes that were requested again do not queue behind spans.
    pub fn take(&mut self, order: Order) {
        match order {
            _ if self.is_over() => self.state.obeyed(1),
            order @ Order::Supply(..) if planted!("supply-waits-behind-spans") => {
                self.waiting.push_back(order)
            }
            Order::Supply(at, bytes) => {
                self.state.obeyed(1);
                self.asked &= planted!("asked-for-once");
                self.decoder.supply(at, &bytes);
            }
            Order::Deny(why) => {
                self.state.obeyed(1);
                self.decoder.deny(&why);
            }
            order => self.waiting.push_back(order),
        }
    }

    /// Returns the next output, if there is one. The previous one must have been carried out.
    pub fn poll_output(&mut self) -> Option<ReceiverOutput> {
        while self.phase == VerifiedPhase::Coming {
            if let Some(damage) = self.decoder.poll_damage() {
                self.state.count_damage();
                return Some(ReceiverOutput::Damaged(damage));
            }
            if let Some(text) = self.decoder.failed() {
                self.state.set_on_request(false);
                return Some(ReceiverOutput::Failed(text.to_owned()));
            }
            if let Some(content) = self.decoder.poll() {
                return Some(ReceiverOutput::Span(RightSpan {
                    content,
                    in_place: std::mem::take(&mut self.in_place),
                }));
            }
            if let Some(wanted) = self.decoder.wanted() {
                if std::mem::replace(&mut self.asked, true) {
                    return None;
                }
                self.state.want(wanted, self.decoder.is_lacking());
                return Some(ReceiverOutput::Said);
            }
            if let Some(completion) = self.complete() {
                match completion {
                    Completion::Needs(needs) => {
                        self.state.need(needs);
                        return Some(ReceiverOutput::Said);
                    }
                    Completion::Passed => self.state.set_on_request(true),
                    Completion::Span(Completed {
                        span,
                        here,
                        own,
                        in_place,
                    }) => {
                        self.in_place = in_place;
                        self.decoder.take_partly(span, here, own);
                    }
                }
                continue;
            }
            let order = self.waiting.pop_front()?;
            self.state.obeyed(1);
            if let Some(output) = self.obey(order) {
                return Some(output);
            }
        }
        None
    }

    fn complete(&mut self) -> Option<Completion> {
        let completer = self.completer.as_mut()?;
        let completion = completer.poll(|| Vec::with_capacity(Spans::MAX_BYTES));
        self.state.set_decided(completer.decided());
        completion
    }

    fn obey(&mut self, order: Order) -> Option<ReceiverOutput> {
        match order {
            Order::Begin(offered, cipher) => {
                self.decoder = Decoder::new(offered.chunk)
                    .hashed_by((self.hash_pool)())
                    .ciphered(cipher);
                return Some(ReceiverOutput::Begin(offered));
            }
            Order::Complete(offer) => {
                self.completer = Some(Completer::new(
                    &offer,
                    self.holdings.clone(),
                    self.decoder.cipher(),
                ))
            }
            Order::Write(bytes) => match &mut self.completer {
                Some(completer) => {
                    completer.take(&bytes);
                    return Some(ReceiverOutput::Used(bytes));
                }
                None => self.decoder.take(bytes),
            },
            Order::Early(bytes) => {
                let right = self.decoder.take_early(&bytes);
                return (!right.is_empty()).then_some(ReceiverOutput::Write(right));
            }
            Order::End(trailer) if self.lacks_some() => {
                self.completer.iter_mut().for_each(Completer::finish);
                self.state.order();
                self.waiting.push_front(Order::End(trailer));
            }
            Order::End(trailer) => {
                // A dry run has no end: a host on the way has passed over what the root sent.
                self.state.set_on_request(false);
                let end_differs = trailer != self.decoder.trailer();
                // With keys only the sender ends a stream: nothing shorter must look complete to a
                // program.
                if end_differs && self.cipher().is_keyed() {
                    let text = "the end of the stream is not the sender's: a host on the way is \
                        bad; send again without it";
                    return Some(ReceiverOutput::Failed(text.to_owned()));
                }
                self.phase = VerifiedPhase::Syncing;
                return Some(ReceiverOutput::Settle {
                    content: self.decoder.content(),
                    end_differs,
                });
            }
            Order::Publish => {
                self.phase = VerifiedPhase::Syncing;
                return Some(ReceiverOutput::Publish);
            }
            Order::Supply(..) | Order::Deny(_) => {}
        }
        None
    }

    fn lacks_some(&self) -> bool {
        self.completer
            .as_ref()
            .is_some_and(|completer| !completer.is_done())
    }

    pub(super) fn cipher(&self) -> &ContentCipher {
        self.decoder.cipher()
    }

    /// Records that the span returned last is stored, so that other receivers may be given it.
    pub fn wrote(&self) {
        self.state.set_content_bytes(self.decoder.content_bytes());
    }

    /// Records that everything is durable, but not visible.
    pub fn settled(&mut self) {
        self.phase = VerifiedPhase::Coming;
        self.conclude(Outcome::Verified, String::new(), None);
    }

    /// Records that the content is visible; `note` is a message to its sender, or empty.
    pub fn published(&mut self, note: String) {
        self.fail(Outcome::Delivered, note, None);
    }

    /// Records that the storage has failed or the transfer was ended; partial work is discarded.
    pub fn fail(&mut self, outcome: Outcome, text: String, cause: Option<io::Error>) {
        self.phase = VerifiedPhase::Over;
        self.state.obeyed(std::mem::take(&mut self.waiting).len());
        self.conclude(outcome, text, cause);
    }

    /// Whether the content is published or has failed.
    pub fn is_over(&self) -> bool {
        self.phase == VerifiedPhase::Over
    }

    fn conclude(&self, outcome: Outcome, text: String, cause: Option<io::Error>) {
        let Trailer { bytes, digest } = self.decoder.trailer();
        self.state.conclude(
            Done {
                outcome,
                bytes,
                digest,
                text,
            },
            cause,
        );
    }
}

/// State shared by a verified receiver and the session's side of it.
#[derive(Debug, Default)]
pub struct ReceiverState {
    waiting: AtomicUsize,
    syncing: AtomicBool,
    /// Range of the stream to fetch again, and whether it never came at all.
    wanted: Mutex<Option<(Range<u64>, bool)>>,
    needs: Mutex<Vec<Needs>>,
    decided: AtomicU64,
    content_bytes: AtomicU64,
    damages: AtomicU64,
    only_asked: AtomicBool,
    conclusion: Mutex<Option<(Done, Option<io::Error>)>>,
}

impl ReceiverState {
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    pub(super) fn order(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn obeyed(&self, orders: usize) {
        self.waiting.fetch_sub(orders, Ordering::Relaxed);
    }

    /// Whether the storage is settling or publishing.
    pub fn is_syncing(&self) -> bool {
        self.syncing.load(Ordering::Relaxed)
    }

    pub fn set_syncing(&self, is_syncing: bool) {
        self.syncing.store(is_syncing, Ordering::Relaxed);
    }

    pub(super) fn wanted(&self) -> Option<(Range<u64>, bool)> {
        self.wanted.lock().clone()
    }

    pub(super) fn take_needs(&self) -> Vec<Needs> {
        std::mem::take(&mut self.needs.lock())
    }

    pub(super) fn decided(&self) -> u64 {
        self.decided.load(Ordering::Relaxed)
    }

    pub(super) fn is_supplied(&self) {
        *self.wanted.lock() = None;
    }

    /// Returns the content bytes that are verified and stored.
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes.load(Ordering::Acquire)
    }

    pub fn damages(&self) -> u64 {
        self.damages.load(Ordering::Relaxed)
    }

    /// Whether the root only queries want-bitmaps and sends nothing.
    pub fn is_on_request(&self) -> bool {
        self.only_asked.load(Ordering::Relaxed)
    }

    pub(super) fn take_conclusion(&self) -> Option<(Done, Option<io::Error>)> {
        self.conclusion.lock().take()
    }

    pub(super) fn count_damage(&self) {
        self.damages.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn want(&self, wanted: Range<u64>, lacking: bool) {
        *self.wanted.lock() = Some((wanted, lacking));
    }

    pub(super) fn need(&self, needs: Needs) {
        self.needs.lock().push(needs);
    }

    pub(super) fn set_decided(&self, stretch: u64) {
        self.decided.store(stretch, Ordering::Relaxed);
    }

    pub(super) fn set_content_bytes(&self, bytes: u64) {
        self.content_bytes.store(bytes, Ordering::Release);
    }

    pub(super) fn set_on_request(&self, is_on_request: bool) {
        self.only_asked.store(is_on_request, Ordering::Relaxed);
    }

    pub(super) fn conclude(&self, verdict: Done, cause: Option<io::Error>) {
        *self.conclusion.lock() = Some((verdict, cause));
    }
}
