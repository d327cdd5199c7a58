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
    /// Returns the form of stream that this sink takes.
    fn form(&self) -> Form {
        Form::Plain
    }

    /// Whether part of the content may be held already.
    fn holds(&self) -> bool {
        false
    }

    /// Whether the sink takes data now. If not, data stays in the stream, which slows the sender
    /// down.
    fn has_room(&self) -> bool {
        true
    }

    /// Takes the next bytes; `message_end` marks the last bytes of a message.
    fn write(&mut self, now: Instant, bytes: &[u8], message_end: bool);

    /// Ends the stream, whose length and digest must match `trailer`. A verdict follows later:
    /// [`Outcome::Verified`] once everything is in place but not visible, or a failure.
    fn finish(&mut self, now: Instant, trailer: Trailer);

    /// Makes the content visible, after the root has confirmed its digest. Returns whether that is
    /// done; if not, another verdict follows: [`Outcome::Delivered`], or a failure.
    fn publish(&mut self, _now: Instant) -> bool {
        true
    }

    /// Whether all data has come and the sink waits for its disk.
    fn is_syncing(&self) -> bool {
        false
    }

    /// Called when there is room and nothing more has arrived.
    fn idle(&mut self, _now: Instant) {}

    /// Returns the outcome of the bytes, once known; also before the end, if no more bytes are
    /// accepted. After a verdict it is called again only after [`publish`](Sink::publish).
    fn verdict(&mut self, now: Instant) -> Option<Done>;

    /// Returns the latest time of the next call of [`verdict`](Sink::verdict), if there is one.
    fn verdict_at(&self) -> Option<Instant> {
        None
    }

    /// Returns the first range of the stream, in positions as pushed at the root, that came damaged
    /// or is missing and must be fetched. A range that is no longer returned is no longer fetched.
    fn wanted(&mut self) -> Option<Range<u64>> {
        None
    }

    /// Whether the [wanted](Sink::wanted) range was never sent to this receiver, rather than
    /// damaged. If so, and in any selective session, its positions are those of the verified stream
    /// of the whole content.
    fn is_lacking(&self) -> bool {
        false
    }

    /// Returns the want-bitmap of the next stretch whose hash lists have come, in a selective
    /// session.
    fn poll_needs(&mut self) -> Option<Needs> {
        None
    }

    /// Returns the first stretch whose chunks for all members are not chosen yet.
    fn decided(&self) -> u64 {
        0
    }

    /// Takes wanted bytes from `at` on: all of the range, or its first 128 KiB. They may be
    /// damaged, too.
    fn supply(&mut self, _now: Instant, _at: u64, _bytes: &[u8]) {}

    /// Reports that the wanted range is unavailable. `why` continues a sentence that begins with
    /// the range; the verdict repeats it.
    fn deny(&mut self, _now: Instant, _why: &str) {}

    /// Returns the `bytes` bytes of the stream from `offset` on for another member, if this sink
    /// keeps them and has verified them. Called when the source cannot re-read them, until the
    /// session is over, whatever the verdict was. [`Again::Pending`] also means that they have come
    /// and are not verified yet; for bytes that never come the result is [`Again::Impossible`].
    fn read_again(&mut self, _now: Instant, _offset: u64, _bytes: usize) -> Again<'_> {
        Again::Impossible("nothing is kept".to_owned())
    }

    /// Returns the number of content bytes present in a selective session: those that came, and
    /// those held before.
    fn covered(&self) -> Option<u64> {
        None
    }

    /// Handles an event of the receiver.
    fn on_event(&mut self, _now: Instant, _event: &ReceiverEvent) {}
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
            self.send_needs(receiver, now);
        }
        self.read_again(receiver, now);
        receiver.set_syncing(self.sink.is_syncing());
        self.request_verdict(now);
        let untold = self
            .untold
            .take_if(|_| receiver.can_leave() || self.cancelled);
        if let Some(verdict) = untold.filter(|_| !self.cancelled) {
            receiver.conclude(now, verdict);
        }
        self.sink.verdict_at()
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
        self.sink.on_event(now, &event);
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
        while self.sink.has_room() {
            let Some((arrival, frames)) = receiver.peek() else {
                self.sink.idle(now);
                break;
            };
            match arrival {
                Arrival::Bytes(bytes) => self.sink.write(now, bytes, false),
                Arrival::Message(bytes) => self.sink.write(now, bytes, true),
                Arrival::End(trailer) => {
                    match self
                        .expected
                        .as_ref()
                        .filter(|expected| trailer.digest != ***expected)
                    {
                        Some(_) => self.refuse(now, trailer),
                        None => self.sink.finish(now, trailer),
                    }
                }
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

    fn send_needs(&mut self, receiver: &mut Receiver, now: Instant) {
        while let Some(needs) = self.sink.poll_needs() {
            receiver.report_needs(now, needs);
        }
        receiver.settle_needs(self.sink.decided());
    }

    fn fetch(&mut self, receiver: &mut Receiver, now: Instant) -> bool {
        let wanted = self.sink.wanted();
        receiver.fetch(now, wanted, self.sink.is_lacking());
        let fetched = receiver.poll_fetched();
        match &fetched {
            Some(Ok((at, bytes))) => {
                self.pieces_again += u64::from(!self.sink.is_lacking());
                self.sink.supply(now, *at, bytes);
            }
            Some(Err(why)) => self.sink.deny(now, why),
            None => {}
        }
        fetched.is_some()
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
        let open = self.verdict.is_none() || self.is_verified();
        if let Some(verdict) = self.sink.verdict(now).filter(|_| open) {
            self.concluded = Some(now);
            self.untold = Some(verdict.clone());
            self.verdict = Some(verdict);
            if planted!("visible-before-the-verdict") {
                self.publish(now);
            }
        }
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

    /// Returns the root's description of the source; empty before its announcement.
    pub fn offer(&self) -> &str {
        &self.offer
    }

    /// Returns the outcome of the bytes, once known.
    pub fn verdict(&self) -> Option<&Done> {
        self.verdict.as_ref()
    }

    /// Returns the outcome, with the length of the content instead of the stream.
    pub fn content_verdict(&self) -> Option<Done> {
        let form = self.sink.form();
        self.verdict.clone().map(|done| Done {
            bytes: form.content_bytes(done.bytes),
            ..done
        })
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
