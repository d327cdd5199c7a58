//! The application at a receiver: moves what arrives into a sink, and says what became of it.

use super::Again;
use crate::session::ledger::Form;
use crate::session::{Arrival, Digest, Done, End, Needs, Outcome, Receiver, ReceiverEvent, Trailer};
use ethbcast_transport::Instant;
use ethbcast_transport::planted;
use std::ops::Range;
use std::time::Duration;

/// Where a receiver's bytes go.
pub trait Sink {
    /// How the stream that it takes carries its content.
    fn form(&self) -> Form {
        Form::Plain
    }

    /// Whether it may have some of what is sent already.
    fn holds(&self) -> bool {
        false
    }

    /// Whether it takes anything now. What it has no room for stays in the stream, which slows the sender down.
    fn has_room(&self) -> bool {
        true
    }

    /// Takes the next bytes; `message_end` if they are the last of a message.
    fn write(&mut self, now: Instant, bytes: &[u8], message_end: bool);

    /// That was all, and this is what it must add up to. A verdict follows some time later: [`Outcome::Verified`] once
    /// all is where it has to be, but not visible, or a failure.
    fn finish(&mut self, now: Instant, trailer: Trailer);

    /// The root has confirmed what was verified: makes it visible. Returns whether that is done, as where there is
    /// nothing to do; if not, another verdict follows: [`Outcome::Delivered`], or a failure.
    fn publish(&mut self, _now: Instant) -> bool {
        true
    }

    /// Whether it has everything and waits for its disk.
    fn is_syncing(&self) -> bool {
        false
    }

    /// There is room, and nothing more has arrived.
    fn idle(&mut self, _now: Instant) {}

    /// What became of the bytes, once that is known; also before the end, if no more of them are wanted. Not asked
    /// again after a verdict, except after [`publish`](Sink::publish).
    fn verdict(&mut self, now: Instant) -> Option<Done>;

    /// When to ask for the verdict if nothing else happens before.
    fn verdict_at(&self) -> Option<Instant> {
        None
    }

    /// Bytes of the stream, counted as they were pushed at the root, that came damaged or are lacking: they are fetched
    /// again. Only the first such range; what was named before and is not any more is not fetched on.
    fn wanted(&mut self) -> Option<Range<u64>> {
        None
    }

    /// Whether what is [wanted](Sink::wanted) was never sent to this receiver, and did not come damaged. It is counted
    /// as in the ledgered form of the whole content then, and in any case where only what somebody lacks is sent.
    fn is_lacking(&self) -> bool {
        false
    }

    /// What it lacks of the next stretch whose ledgers have come, if only what somebody lacks is sent.
    fn poll_needs(&mut self) -> Option<Needs> {
        None
    }

    /// Below this stretch it is decided what all are sent.
    fn decided(&self) -> u64 {
        0
    }

    /// Takes bytes that were wanted, from `at` on: all of the range, or its first 128 KiB. They may be damaged again.
    fn supply(&mut self, _now: Instant, _at: u64, _bytes: &[u8]) {}

    /// What is wanted cannot be had; `why` is to be read after what that is. The verdict says so.
    fn deny(&mut self, _now: Instant, _why: &str) {}

    /// The `bytes` bytes of the stream from `offset` on, if this receiver keeps them and has verified them, for another
    /// that lacks them when the source cannot be read again. [`Again::Pending`] also for bytes that have come and are
    /// not verified yet; whoever has not got them at all has them not. Asked until the session is over, whatever the
    /// verdict was.
    fn read_again(&mut self, _now: Instant, _offset: u64, _bytes: usize) -> Again<'_> {
        Again::Impossible("nothing is kept".to_owned())
    }

    /// Something has happened at the receiver.
    fn on_event(&mut self, _now: Instant, _event: &ReceiverEvent) {}
}

/// A [`Sink`] at work.
#[derive(Clone, Debug)]
pub struct Receiving<K> {
    sink: K,
    /// What the root offers.
    offer: String,
    /// When the first bytes, or the end, came.
    began: Option<Instant>,
    concluded: Option<Instant>,
    /// What the sink has decided last.
    verdict: Option<Done>,
    /// The same, until the receiver has been told.
    untold: Option<Done>,
    cancelled: bool,
    end: Option<End>,
    /// How often bytes that came damaged were sent again.
    pieces_again: u64,
    /// The only digest that is taken, if there is one.
    expected: Option<Box<Digest>>,
}

impl<K: Sink> Receiving<K> {
    /// Will put what comes into `sink`.
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

    /// Takes only what has this digest.
    pub fn expect(&mut self, digest: Digest) {
        self.expected = Some(Box::new(digest));
    }

    /// The application's turn at its receiver: takes note of events, takes what there is room for, and reports the
    /// verdict once there is one. Returns when it wants to be called again, if it does not depend on the receiver.
    pub fn turn(&mut self, receiver: &mut Receiver, now: Instant) -> Option<Instant> {
        while let Some(event) = receiver.poll_event() {
            self.handle_event(now, event);
        }
        if self.verdict.is_none() && !self.cancelled {
            self.take(receiver, now);
            while self.fetch(receiver, now) {
                self.take(receiver, now);
            }
            self.say_needs(receiver, now);
        }
        self.read_again(receiver, now);
        receiver.set_syncing(self.sink.is_syncing());
        self.ask_verdict(now);
        if let Some(verdict) = self.untold.take().filter(|_| !self.cancelled) {
            receiver.conclude(now, verdict);
        }
        self.sink.verdict_at()
    }

    /// Whether all bytes are here, and not visible yet.
    fn is_verified(&self) -> bool {
        self.verdict.as_ref().is_some_and(|verdict| verdict.outcome == Outcome::Verified)
    }

    /// The root has accepted the bytes: they may be seen.
    fn publish(&mut self, now: Instant) {
        if self.cancelled || !self.is_verified() || !self.sink.publish(now) {
            return;
        }
        if let Some(verdict) = &mut self.verdict {
            verdict.outcome = Outcome::Delivered;
            self.untold = Some(verdict.clone());
        }
    }

    /// Takes note of one event, for whoever wants to see the receiver's events, too.
    pub fn handle_event(&mut self, now: Instant, event: ReceiverEvent) {
        self.sink.on_event(now, &event);
        match event {
            ReceiverEvent::Invited { source, .. } => self.offer = source,
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
                    match self.expected.as_ref().filter(|expected| trailer.digest != ***expected) {
                        Some(_) => self.refuse(now, trailer),
                        None => self.sink.finish(now, trailer),
                    }
                }
            }
            receiver.consume(now, frames);
            self.began.get_or_insert(now);
        }
    }

    /// What came is not what is expected: it stays invisible.
    fn refuse(&mut self, now: Instant, trailer: Trailer) {
        let text = "its digest is not the one that is expected here: DEST is as it was".to_owned();
        let Trailer { bytes, digest } = trailer;
        self.concluded = Some(now);
        self.verdict = Some(Done { outcome: Outcome::Damaged, bytes, digest, text });
        self.untold.clone_from(&self.verdict);
    }

    /// Says what the sink lacks of what is about to come.
    fn say_needs(&mut self, receiver: &mut Receiver, now: Instant) {
        while let Some(needs) = self.sink.poll_needs() {
            receiver.say_needs(now, needs);
        }
        receiver.settle_needs(self.sink.decided());
    }

    /// Asks for what the sink wants again, and gives it what has come of it; whether anything has.
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

    /// Reads for another member what the root asks for, as far as it is there already.
    fn read_again(&mut self, receiver: &mut Receiver, now: Instant) {
        while let Some(wanted) = receiver.wants_again() {
            match self.sink.read_again(now, wanted.start, (wanted.end - wanted.start) as usize) {
                Again::Bytes(bytes) => receiver.supply(bytes),
                Again::Pending => break,
                Again::Impossible(text) => {
                    log::debug!("bytes from {} on are not here for another: {text}", wanted.start);
                    receiver.deny();
                }
            }
        }
    }

    /// Asks the sink for its verdict; what it decides after the last turn is still worth knowing.
    pub fn ask_verdict(&mut self, now: Instant) {
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

    /// The user has had enough: nothing more is taken, and the root is told.
    pub fn cancel(&mut self, receiver: &mut Receiver, now: Instant) {
        if !std::mem::replace(&mut self.cancelled, true) {
            let (outcome, text) = (Outcome::Interrupted, "interrupted by its user".to_owned());
            receiver.conclude(now, Done { outcome, bytes: 0, digest: [0; 32], text });
        }
    }

    /// The sink.
    pub fn sink(&self) -> &K {
        &self.sink
    }

    /// The sink.
    pub fn sink_mut(&mut self) -> &mut K {
        &mut self.sink
    }

    /// The sink, when all is over.
    pub fn into_sink(self) -> K {
        self.sink
    }

    /// What the root offers, in its own words; empty before its invitation.
    pub fn offer(&self) -> &str {
        &self.offer
    }

    /// What became of the bytes, once that is known.
    pub fn verdict(&self) -> Option<&Done> {
        self.verdict.as_ref()
    }

    /// The same of the content that the stream carries.
    pub fn content_verdict(&self) -> Option<Done> {
        let form = self.sink.form();
        self.verdict.clone().map(|done| Done { bytes: form.content_bytes(done.bytes), ..done })
    }

    /// How often bytes that came damaged, or not at all, were sent again because the sink wanted them.
    pub fn pieces_again(&self) -> u64 {
        self.pieces_again
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// How the session ended here, once it has.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// From the first bytes to the first verdict; zero unless there were both.
    pub fn took(&self) -> Duration {
        self.began.zip(self.concluded).map(|(began, concluded)| concluded.since(began)).unwrap_or_default()
    }
}
