//! Application of a receiver: passes received data to its storage and reports the outcome.

use super::sending::Again;
use crate::session::message::{Digest, Done, Needs, Outcome, Trailer};
use crate::session::receiver::{Arrival, End, Receiver, ReceiverEvent};
use crate::session::verified::Form;
use ethbcast_transport::{Instant, planted};
use std::ops::Range;
use std::time::Duration;

/// Destination of a receiver's bytes.
pub trait Sink {
    /// Whether the sink takes data now. If not, data stays in the stream, which slows the sender
    /// down.
    fn has_room(&self) -> bool {
        true
    }

    /// Takes what has come next. After the end, whose trailer must match the bytes, a verdict
    /// follows: [`Outcome::Verified`] once everything is in place but not visible, or a failure.
    fn take(&mut self, now: Instant, arrival: Arrival<'_>);

    /// Makes the content visible, after the root has confirmed its digest. Returns whether that is
    /// done; if not, another verdict follows: [`Outcome::Delivered`], or a failure.
    fn publish(&mut self, _now: Instant) -> bool {
        true
    }

    /// Does what is due and returns the state of the bytes. Called at the end of every turn.
    fn turn(&mut self, now: Instant) -> SinkState;

    /// Returns the `bytes` bytes of the stream from `offset` on for another member, if this sink
    /// keeps them and has verified them. Called when the source cannot re-read them, until the
    /// session is over, whatever the verdict was. [`Again::Pending`] also means that they have come
    /// and are not verified yet; for bytes that never come the result is [`Again::Impossible`].
    fn read_again(&mut self, _now: Instant, _offset: u64, _bytes: usize) -> Again<'_> {
        Again::Impossible("nothing is kept".to_owned())
    }

    /// Returns the part of the sink that has damaged and missing bytes fetched.
    fn verified(&mut self) -> Option<&mut dyn VerifiedSink> {
        None
    }
}

/// State of a [`Sink`] after its turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkState {
    /// Whether all data has come and the sink waits for its disk.
    pub is_syncing: bool,
    /// Outcome of the bytes, once known; also before the end, if no more bytes are accepted. Given
    /// once, and once more after [`publish`](Sink::publish).
    pub verdict: Option<Done>,
    /// The latest time of the next turn, if there is one.
    pub again_at: Option<Instant>,
}

impl From<Option<Done>> for SinkState {
    fn from(verdict: Option<Done>) -> SinkState {
        SinkState {
            verdict,
            ..SinkState::default()
        }
    }
}

/// Part of a [`Sink`] that verifies bytes as they come, so that damaged and missing ones are
/// fetched from other hosts.
pub trait VerifiedSink {
    /// Returns what this sink takes, and what it has.
    fn coverage(&self) -> Coverage;

    /// Handles an event of the receiver.
    fn on_event(&mut self, _now: Instant, _event: &ReceiverEvent) {}

    /// Returns what the sink lacks, after it has taken all that has come or that it has room for.
    fn missing(&mut self, now: Instant) -> MissingData;

    /// Takes wanted bytes with their position: all of the range, or its first 128 KiB. They may be
    /// damaged, too. An error says that the range is unavailable; its text continues a sentence
    /// that begins with the range, and the verdict repeats it.
    fn fetched(&mut self, now: Instant, fetched: Result<(u64, &[u8]), &str>);
}

/// Form and part of a content that a [`Sink`] takes and has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Form of stream that it takes.
    pub form: Form,
    /// Whether part of the content may be held already.
    pub holds: bool,
    /// Number of content bytes present in a selective session: those that came, and those held
    /// before.
    pub bytes: Option<u64>,
}

/// Data that a [`VerifiedSink`] lacks, to come from other hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingData {
    /// The first range of the stream, in positions as pushed at the root, that came damaged or is
    /// missing and must be fetched. A range that is no longer wanted is no longer fetched.
    pub wanted: Option<Range<u64>>,
    /// Whether the wanted range was never sent to this receiver, rather than damaged. If so, and in
    /// any selective session, its positions are those of the verified stream of the whole content.
    pub is_lacking: bool,
    /// The want-bitmaps of the next stretches whose hash lists have come, in a selective session.
    pub needs: Vec<Needs>,
    /// The first stretch whose chunks for all members are not chosen yet.
    pub decided: u64,
}

/// Driver of a [`Sink`].
#[derive(Clone, Debug)]
pub struct Receiving<K> {
    sink: K,
    offer: String,
    began: Option<Instant>,
    concluded: Option<Instant>,
    verdict: Option<Done>,
    untold: Option<Done>,
    cancelled: bool,
    end: Option<End>,
    pieces_again: u64,
    expected: Option<Box<Digest>>,
}

impl<K: Sink> Receiving<K> {
    /// Creates a driver that writes to `sink`.
    pub fn new(sink: K) -> Receiving<K> {
        let offer = String::new();
        Receiving {
            sink,
            offer,
            began: None,
            concluded: None,
            verdict: None,
            untold: None,
            cancelled: false,
            end: None,
            pieces_again: 0,
            expected: None,
        }
    }

    /// Accepts only a content with this digest.
    pub fn expect(&mut self, digest: Digest) {
        self.expected = Some(Box::new(digest));
    }

    /// Runs the receiver's application for one turn: handles events, moves data while there is
    /// room, and passes on the verdict. Returns the time of the next turn, if that does not depend
    /// on the receiver.
    pub fn turn(&mut self, receiver: &mut Receiver, now: Instant) -> Option<Instant> {
        while let Some(event) = receiver.poll_event() {
            self.handle_event(now, event);
        }
        if self.verdict.is_none() && !self.cancelled {
            self.take(receiver, now);
            while self.fetch(receiver, now) {
                self.take(receiver, now);
            }
        }
        self.read_again(receiver, now);
        let state = self.turn_sink(now);
        receiver.set_syncing(state.is_syncing);
        let untold = self
            .untold
            .take_if(|_| receiver.can_leave() || self.cancelled);
        if let Some(verdict) = untold.filter(|_| !self.cancelled) {
            receiver.conclude(now, verdict);
        }
        state.again_at
    }

    fn is_verified(&self) -> bool {
        self.verdict
            .as_ref()
            .is_some_and(|verdict| verdict.outcome == Outcome::Verified)
    }

    fn publish(&mut self, now: Instant) {
        if self.cancelled || !self.is_verified() || !self.sink.publish(now) {
            return;
        }
        if let Some(verdict) = &mut self.verdict {
            verdict.outcome = Outcome::Delivered;
            self.untold = Some(verdict.clone());
        }
    }

    /// Handles one event, for callers that also inspect the receiver's events.
    pub fn handle_event(&mut self, now: Instant, event: ReceiverEvent) {
        if let Some(verified) = self.sink.verified() {
            verified.on_event(now, &event);
        }
        match event {
            ReceiverEvent::Invited { source, .. } => {
                self.offer = source;
                // What was declined was another's, whose invitation may have been a recorded one.
                (self.concluded, self.untold, self.verdict) = (None, None, None);
            }
            ReceiverEvent::Accepted => self.publish(now),
            ReceiverEvent::Ended(end) => self.end = Some(end),
            _ => {}
        }
    }

    fn take(&mut self, receiver: &mut Receiver, now: Instant) {
        while self.sink.has_room()
            && let Some((arrival, frames)) = receiver.peek()
        {
            match (arrival, self.expected.as_deref()) {
                (Arrival::End(trailer), Some(expected)) if trailer.digest != *expected => {
                    self.refuse(now, trailer)
                }
                _ => self.sink.take(now, arrival),
            }
            receiver.consume(now, frames);
            self.began.get_or_insert(now);
        }
    }

    fn refuse(&mut self, now: Instant, trailer: Trailer) {
        let text = "its digest is not the one that is expected here: DEST is as it was".to_owned();
        let Trailer { bytes, digest } = trailer;
        self.concluded = Some(now);
        self.verdict = Some(Done {
            outcome: Outcome::Damaged,
            bytes,
            digest,
            text,
        });
        self.untold.clone_from(&self.verdict);
    }

    fn fetch(&mut self, receiver: &mut Receiver, now: Instant) -> bool {
        let Some(verified) = self.sink.verified() else {
            return false;
        };
        let missing = verified.missing(now);
        for needs in missing.needs {
            receiver.report_needs(now, needs);
        }
        receiver.settle_needs(missing.decided);
        receiver.fetch(now, missing.wanted, missing.is_lacking);
        let Some(fetched) = receiver.poll_fetched() else {
            return false;
        };
        self.pieces_again += u64::from(fetched.is_ok() && !missing.is_lacking);
        let fetched = fetched.as_ref().map(|(at, bytes)| (*at, &bytes[..]));
        verified.fetched(now, fetched.map_err(|why| &why[..]));
        true
    }

    fn read_again(&mut self, receiver: &mut Receiver, now: Instant) {
        while let Some(wanted) = receiver.wants_again() {
            match self
                .sink
                .read_again(now, wanted.start, (wanted.end - wanted.start) as usize)
            {
                Again::Bytes(bytes) => receiver.supply(bytes),
                Again::Pending => break,
                Again::Impossible(text) => {
                    log::debug!(
                        "bytes from {} on are not here for another: {text}",
                        wanted.start
                    );
                    receiver.deny();
                }
            }
        }
    }

    /// Asks the sink for its verdict. The last call must follow the last turn.
    pub fn request_verdict(&mut self, now: Instant) {
        self.turn_sink(now);
    }

    fn turn_sink(&mut self, now: Instant) -> SinkState {
        let open = self.verdict.is_none() || self.is_verified();
        let mut state = self.sink.turn(now);
        if let Some(verdict) = state.verdict.take().filter(|_| open) {
            self.concluded = Some(now);
            self.untold = Some(verdict.clone());
            self.verdict = Some(verdict);
            if planted!("visible-before-the-verdict") {
                self.publish(now);
                return self.turn_sink(now);
            }
        }
        state
    }

    /// Declines the content before the session is joined, with the words of a refusal.
    pub fn decline(&mut self, now: Instant, outcome: Outcome, text: String) {
        let verdict = Done {
            outcome,
            bytes: 0,
            digest: [0; 32],
            text,
        };
        (self.concluded, self.untold, self.verdict) =
            (Some(now), Some(verdict.clone()), Some(verdict));
    }

    /// Ends the session early for this reason, which is sent to the root in the next turn; nothing
    /// more is received.
    pub fn give_up(&mut self, why: &str) {
        if self.verdict.is_none() {
            let verdict = Done {
                outcome: Outcome::Interrupted,
                bytes: 0,
                digest: [0; 32],
                text: why.to_owned(),
            };
            self.untold = Some(verdict.clone());
            self.verdict = Some(verdict);
        }
    }

    /// Ends the session early at the user's request, for this reason: nothing more is received, and
    /// the root is notified.
    pub fn cancel(&mut self, receiver: &mut Receiver, now: Instant, why: &str) {
        if !std::mem::replace(&mut self.cancelled, true) {
            let (outcome, text) = (Outcome::Interrupted, why.to_owned());
            receiver.conclude(
                now,
                Done {
                    outcome,
                    bytes: 0,
                    digest: [0; 32],
                    text,
                },
            );
        }
    }

    /// Returns the sink.
    pub fn sink(&self) -> &K {
        &self.sink
    }

    /// Returns the sink, mutably.
    pub fn sink_mut(&mut self) -> &mut K {
        &mut self.sink
    }

    /// Returns what the sink takes, and what it has.
    pub fn coverage(&mut self) -> Coverage {
        let verified = self.sink.verified();
        verified.map_or_else(Coverage::default, |verified| verified.coverage())
    }

    /// Returns the root's description of the source; empty before its announcement.
    pub fn offer(&self) -> &str {
        &self.offer
    }

    /// Returns the outcome of the bytes, once known.
    pub fn verdict(&self) -> Option<&Done> {
        self.verdict.as_ref()
    }

    /// Returns the number of ranges that came damaged, or not at all, and were sent again.
    pub fn pieces_again(&self) -> u64 {
        self.pieces_again
    }

    /// Whether the user cancelled the session.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// Returns how the session ended at this host, once it has ended.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Returns the time from the first bytes to the first verdict, or zero if either is missing.
    pub fn took(&self) -> Duration {
        self.began
            .zip(self.concluded)
            .map(|(began, concluded)| concluded.since(began))
            .unwrap_or_default()
    }
}
