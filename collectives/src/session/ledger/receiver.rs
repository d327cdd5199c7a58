//! The receiving end of a verified stream: checks its spans, asks again for what came damaged or is lacking, and says
//! what is to be stored next.
//!
//! [`VerifiedReceiver`] takes [`Order`]s and gives [`ReceiverOutput`]s; whoever drives it carries each of them out
//! before it asks for the next. On hosts a thread does that beside the session, in simulations the session's own turn.
//! The session's side of it is [`SpanSink`](super::SpanSink); both see the
//! [`ReceiverState`](super::ReceiverState).

use super::crew::{Alone, Crew};
use super::decoder::{Content, Damage, Decoder};
use super::layout::ChunkSize;
use super::receiver_state::ReceiverState;
use super::selection::{Completed, Completer, Completion, HeldOffer, Holdings};
use super::spans::Spans;
use crate::session::{ContentKind, Done, Outcome, Trailer};
use ethbcast_transport::planted;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// What a sender offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// Its name at the sender.
    pub source: String,
    /// Its bytes, if known in advance.
    pub size: Option<u64>,
    /// What they are.
    pub content: ContentKind,
    /// How long its chunks are.
    pub chunk: ChunkSize,
}

/// What a session tells its verified receiver.
#[derive(Debug)]
pub enum Order {
    /// The session has begun.
    Begin(Offered),
    /// Some of the content may be here: only what somebody lacks comes.
    Complete(HeldOffer),
    /// The next span, or the next bytes of what somebody lacks.
    Write(Vec<u8>),
    /// The next whole chunks of a span that is still coming.
    Early(Vec<u8>),
    /// What was wanted again, from this byte of the stream on.
    Supply(u64, Vec<u8>),
    /// Why that cannot be had.
    Deny(String),
    /// That was all.
    End(Trailer),
    /// The root has accepted it.
    Publish,
}

/// What a verified receiver wants done.
#[derive(Debug)]
pub enum ReceiverOutput {
    /// The content that was offered will come.
    Begin(Offered),
    /// The next bytes of the content are these, and right.
    Write(Vec<u8>),
    /// The next bytes are those of a span, all right; [`wrote`](VerifiedReceiver::wrote) follows once they are stored.
    Span(RightSpan),
    /// Memory that is free again.
    Used(Vec<u8>),
    /// The session's side has something new to see in the [`ReceiverState`].
    Said,
    /// Something came damaged, and is wanted again.
    Damaged(Damage),
    /// All has come: it is to be made last; [`settled`](VerifiedReceiver::settled) follows.
    Settle {
        /// What it adds up to as a content.
        content: Trailer,
        /// The end of the stream said something else than has come.
        end_differs: bool,
    },
    /// It is to be shown under its name; [`published`](VerifiedReceiver::published) follows.
    Publish,
    /// No more can be had, for this reason; [`fail`](VerifiedReceiver::fail) follows.
    Failed(String),
}

/// A span of which all chunks are right.
#[derive(Debug)]
pub struct RightSpan {
    content: Content,
    /// Chunks that stand where they belong: a bit for each.
    in_place: u64,
}

impl RightSpan {
    /// Stores its chunks in order: those that stand where they belong by `keep`, the others by `write`, as many at a
    /// time as lie beside each other.
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
            if stays { keep(to, chunk)? } else { write(to, chunk)? }
        }
        Ok(())
    }

    /// How many of its bytes were this receiver's own.
    pub fn own_bytes(&self) -> u64 {
        self.content.chunks().filter(|(_, own)| *own).map(|(chunk, _)| chunk.len() as u64).sum()
    }

    /// The memory, to be used again.
    pub fn into_memory(self) -> Vec<u8> {
        self.content.into_memory()
    }
}

/// How far the content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It comes.
    Coming,
    /// The storage settles or publishes it: nothing else is done meanwhile.
    Syncing,
    /// It is published, or has failed: whatever still comes is thrown away.
    Over,
}

/// Checks a stream and completes it.
#[derive(Debug)]
pub struct VerifiedReceiver {
    state: Arc<ReceiverState>,
    crew: fn() -> Arc<dyn Crew>,
    decoder: Decoder,
    holdings: Option<Arc<dyn Holdings>>,
    completer: Option<Completer>,
    /// It was said what is wanted, and nothing has come of it since. Whatever else comes, that is not said once more:
    /// what is on its way would be asked for again.
    asked: bool,
    /// Chunks of the span that is being checked that stand where they belong.
    in_place: u64,
    /// Orders behind a span that is damaged.
    waiting: VecDeque<Order>,
    phase: Phase,
}

impl VerifiedReceiver {
    /// Returns one that nothing has come to; the session's side of it sees `state`.
    pub fn new(state: &Arc<ReceiverState>) -> VerifiedReceiver {
        VerifiedReceiver {
            state: Arc::clone(state),
            crew: || Arc::new(Alone),
            decoder: Decoder::default(),
            holdings: None,
            completer: None,
            asked: false,
            in_place: 0,
            waiting: VecDeque::new(),
            phase: Phase::Coming,
        }
    }

    /// The same, whose chunks such a crew hashes.
    pub fn hashed_by(self, crew: fn() -> Arc<dyn Crew>) -> VerifiedReceiver {
        VerifiedReceiver { crew, ..self }
    }

    /// Lets it look at what may be here of the content already.
    pub fn hold(&mut self, holdings: Arc<dyn Holdings>) {
        self.holdings = Some(holdings);
    }

    /// Takes an order. What was wanted again does not wait behind the spans.
    pub fn take(&mut self, order: Order) {
        match order {
            _ if self.is_over() => self.state.obeyed(1),
            order @ Order::Supply(..) if planted!("supply-waits-behind-spans") => self.waiting.push_back(order),
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

    /// Returns what is to be done next, if anything can be; what was returned before has been carried out.
    pub fn poll_output(&mut self) -> Option<ReceiverOutput> {
        while self.phase == Phase::Coming {
            if let Some(damage) = self.decoder.poll_damage() {
                self.state.count_damage();
                return Some(ReceiverOutput::Damaged(damage));
            }
            if let Some(text) = self.decoder.failed() {
                return Some(ReceiverOutput::Failed(text.to_owned()));
            }
            if let Some(content) = self.decoder.poll() {
                return Some(ReceiverOutput::Span(RightSpan { content, in_place: std::mem::take(&mut self.in_place) }));
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
                    Completion::Passed => self.state.set_only_asked(),
                    Completion::Span(Completed { span, here, own, in_place }) => {
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

    /// Returns the next span of what has come and what is here, or what is lacking; `None` if there is neither.
    fn complete(&mut self) -> Option<Completion> {
        let completer = self.completer.as_mut()?;
        let completion = completer.poll(|| Vec::with_capacity(Spans::MOST_BYTES));
        self.state.set_decided(completer.decided());
        completion
    }

    /// Follows one order, as far as that takes no storage.
    fn obey(&mut self, order: Order) -> Option<ReceiverOutput> {
        match order {
            Order::Begin(offered) => {
                self.decoder = Decoder::new(offered.chunk).hashed_by((self.crew)());
                return Some(ReceiverOutput::Begin(offered));
            }
            Order::Complete(offer) => self.completer = Some(Completer::new(&offer, self.holdings.clone())),
            Order::Write(bytes) => match &mut self.completer {
                Some(completer) => {
                    completer.take(&bytes);
                    return Some(ReceiverOutput::Used(bytes));
                }
                None => self.decoder.take(bytes),
            },
            Order::Early(bytes) => {
                let right = self.decoder.take_early(&bytes);
                return (!right.is_empty()).then(|| ReceiverOutput::Write(right.to_vec()));
            }
            Order::End(trailer) if self.lacks_some() => {
                self.completer.iter_mut().for_each(Completer::finish);
                self.state.order();
                self.waiting.push_front(Order::End(trailer));
            }
            Order::End(trailer) => {
                self.phase = Phase::Syncing;
                let end_differs = trailer != self.decoder.trailer();
                return Some(ReceiverOutput::Settle { content: self.decoder.content(), end_differs });
            }
            Order::Publish => {
                self.phase = Phase::Syncing;
                return Some(ReceiverOutput::Publish);
            }
            Order::Supply(..) | Order::Deny(_) => {}
        }
        None
    }

    /// Whether some of a content of which parts were here has not been completed.
    fn lacks_some(&self) -> bool {
        self.completer.as_ref().is_some_and(|completer| !completer.is_done())
    }

    /// The span that was given is stored: others may be given it.
    pub fn wrote(&self) {
        self.state.set_content_bytes(self.decoder.content_bytes());
    }

    /// All is stored for good, and not visible.
    pub fn settled(&mut self) {
        self.phase = Phase::Coming;
        self.conclude(Outcome::Verified, String::new(), None);
    }

    /// All is visible; `note` is what its sender should know of it, if anything.
    pub fn published(&mut self, note: String) {
        self.fail(Outcome::Delivered, note, None);
    }

    /// The storage has failed, or no more can be had: what is half done is gone.
    pub fn fail(&mut self, outcome: Outcome, text: String, cause: Option<io::Error>) {
        self.phase = Phase::Over;
        self.state.obeyed(std::mem::take(&mut self.waiting).len());
        self.conclude(outcome, text, cause);
    }

    /// Whether all is published or has failed.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// A verdict on what has come and is right.
    fn conclude(&self, outcome: Outcome, text: String, cause: Option<io::Error>) {
        let Trailer { bytes, digest } = self.decoder.trailer();
        self.state.conclude(Done { outcome, bytes, digest, text }, cause);
    }
}
