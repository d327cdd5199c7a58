//! A sink whose spans a thread of its own checks and writes.

use super::read_again::{ReadAgain, ReadAt};
use super::storage::{Offered, Storage};
use super::writer::{Order, Writer, WriterState};
use crate::session::application::{Again, Sink, Tally};
use crate::session::ledger::{Form, HeldOffer, Spans, overlap};
use crate::session::{Done, Needs, Outcome, ReceiverEvent, Trailer};
use ethbcast_transport::Instant;
use ethbcast_transport::packet::Waker;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

/// Spans that may wait for the writer: 8 MiB, 64 ms at 1 Gbit/s; what comes then waits in the feed.
const SPANS_WAITING: usize = 8;
/// What has come of a span goes to the writer when nothing more is there and so long nothing has gone: at 1 Gbit/s a
/// span takes less. What a killed receiver had not written comes again.
const EARLY_AFTER: Duration = Duration::from_millis(10);

/// The sink of a session whose bytes a [`Writer`] writes.
#[derive(Debug)]
pub struct WriteBehind {
    shared: Arc<WriterState>,
    orders: Option<SyncSender<Order>>,
    used: Receiver<Vec<u8>>,
    /// Disconnected when the writer has ended.
    ended: Receiver<()>,
    spans: Spans,
    /// When the last of a span went to the writer.
    went_at: Instant,
    offered: Offered,
    cause: Option<io::Error>,
    publishing: bool,
    /// What the storage keeps for others, once it is there.
    kept: Receiver<Box<dyn ReadAt>>,
    again: Option<ReadAgain>,
    /// Some of the content may be here.
    holds: bool,
    /// Only what somebody lacks comes.
    is_selective: bool,
}

/// A sink and the writer that empties it into `storage`; `waker` is told when a span has been written, when something
/// is wanted again, and of the verdict.
pub fn write_behind<S: Storage>(storage: S, waker: &Arc<Waker>) -> (Writer<S>, WriteBehind) {
    // What was wanted again does not wait behind the spans.
    let (to_writer, orders) = sync_channel(SPANS_WAITING + 1);
    // All memory is taken, and touched, at once: the peak of a long stream is that of a short one. One more span is
    // being written, one being filled.
    let (recycle, used) = sync_channel(SPANS_WAITING + 2);
    let memory = || vec![0; Spans::MOST_BYTES];
    (0..SPANS_WAITING + 2).for_each(|_| recycle.try_send(memory()).expect("there is room for so many"));
    let ((keep, kept), (alive, ended)) = (sync_channel(1), sync_channel(0));
    let shared = Arc::new(WriterState::new(waker));
    let writer = Writer::new(Arc::clone(&shared), storage, orders, recycle, keep, alive);
    let sink = WriteBehind {
        shared,
        orders: Some(to_writer),
        used,
        ended,
        spans: Spans::default(),
        went_at: Instant::START,
        offered: Offered::default(),
        cause: None,
        publishing: false,
        kept,
        again: None,
        holds: false,
        is_selective: false,
    };
    (writer, sink)
}

impl WriteBehind {
    /// The root is told that some of the content may be here: the writer must be [holding](Writer::holding) it.
    pub fn holding(self) -> WriteBehind {
        WriteBehind { holds: true, ..self }
    }

    /// Ends the writer and waits for it, `limit` at most, so that what is half done is gone before the process is.
    /// False if it is stuck.
    pub fn close(&mut self, limit: Duration) -> bool {
        self.orders = None;
        self.ended.recv_timeout(limit) != Err(RecvTimeoutError::Timeout)
    }

    /// Whether the storage was told to publish, and has not said what came of it.
    pub fn is_publishing(&self) -> bool {
        self.publishing
    }

    /// The writer's own error, if that is why it failed.
    pub fn take_cause(&mut self) -> Option<io::Error> {
        self.cause.take()
    }

    /// Whether the sender has only asked what is lacking here.
    pub fn is_only_asked(&self) -> bool {
        self.shared.is_only_asked()
    }

    /// Gives an order; there must be room.
    fn order(&self, order: Order) {
        self.shared.order();
        if self.orders.as_ref().is_none_or(|orders| orders.send(order).is_err()) {
            log::debug!("the writer has ended");
        }
    }

    /// How often something came damaged, and was asked for again.
    pub fn damages(&self) -> u64 {
        self.shared.damages()
    }
}

impl Sink for WriteBehind {
    fn form(&self) -> Form {
        Form::Ledgered(self.offered.chunk)
    }

    /// Whether two more orders (a last span and the end) can be given without waiting.
    fn has_room(&self) -> bool {
        self.orders.is_some() && self.shared.waiting() + 2 <= SPANS_WAITING
    }

    fn write(&mut self, now: Instant, bytes: &[u8], _message_end: bool) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.spans.is_empty() {
                let memory = self.used.try_recv();
                self.spans.begin(memory.unwrap_or_else(|_| Vec::with_capacity(Spans::MOST_BYTES)));
            }
            rest = self.spans.take(rest);
            if self.spans.is_whole() {
                let span = self.spans.end();
                self.order(Order::Write(span));
                self.went_at = now;
            }
        }
    }

    fn holds(&self) -> bool {
        self.holds
    }

    fn is_lacking(&self) -> bool {
        self.shared.is_lacking()
    }

    fn poll_needs(&mut self) -> Option<Needs> {
        self.shared.poll_needs()
    }

    fn decided(&self) -> u64 {
        self.shared.decided()
    }

    /// What has come of what somebody lacks is looked at at once: ledgers wait for an answer. Of all else whole chunks
    /// are.
    fn idle(&mut self, now: Instant) {
        if self.is_selective {
            if !self.spans.is_empty() {
                let bytes = self.spans.end();
                self.order(Order::Write(bytes));
            }
        } else if now.since(self.went_at) >= EARLY_AFTER {
            let bytes = self.spans.whole_chunks().to_vec();
            if !bytes.is_empty() {
                self.order(Order::Early(bytes));
                self.went_at = now;
            }
        }
    }

    fn finish(&mut self, _now: Instant, trailer: Trailer) {
        if !self.spans.is_empty() {
            let span = self.spans.end();
            self.order(Order::Write(span));
        }
        self.order(Order::End(trailer));
    }

    fn publish(&mut self, _now: Instant) -> bool {
        if !std::mem::replace(&mut self.publishing, true) {
            self.order(Order::Publish);
        }
        false
    }

    fn is_syncing(&self) -> bool {
        self.shared.is_syncing()
    }

    fn wanted(&mut self) -> Option<Range<u64>> {
        self.shared.wanted()
    }

    fn supply(&mut self, _now: Instant, at: u64, bytes: &[u8]) {
        if self.shared.wanted().is_some() {
            self.shared.is_supplied();
            self.order(Order::Supply(at, bytes.to_vec()));
        }
    }

    fn deny(&mut self, _now: Instant, why: &str) {
        if self.shared.wanted().is_some() {
            self.shared.is_supplied();
            self.order(Order::Deny(why.to_owned()));
        }
    }

    fn read_again(&mut self, _now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        let part = offset..offset + bytes as u64;
        if self.again.is_none() {
            let Ok(kept) = self.kept.try_recv() else { return Again::Impossible("nothing is kept here".to_owned()) };
            self.again = Some(ReadAgain::new(kept, self.offered.chunk, self.shared.waker()));
        }
        if self.shared.wanted().is_some_and(|wanted| overlap(&wanted, &part)) {
            return Again::Impossible("they came damaged here, too".to_owned());
        }
        let content_bytes = self.shared.content_bytes();
        let form = self.form();
        match &mut self.again {
            Some(again) if part.end <= form.stream_bytes(content_bytes) => again.read(part, content_bytes),
            // What is not there when the writer ends never comes.
            _ if self.ended.try_recv() == Err(TryRecvError::Disconnected) => {
                Again::Impossible("they did not come here".to_owned())
            }
            _ => Again::Pending,
        }
    }

    fn verdict(&mut self, _now: Instant) -> Option<Done> {
        let has_ended = self.ended.try_recv() == Err(TryRecvError::Disconnected);
        if let Some((verdict, cause)) = self.shared.take_conclusion() {
            self.cause = cause;
            self.publishing = false;
            return Some(verdict);
        }
        let panicked = has_ended && self.orders.is_some();
        panicked.then(|| Tally::default().verdict(Outcome::WriteFailed, "the writer panicked"))
    }

    fn on_event(&mut self, _now: Instant, event: &ReceiverEvent) {
        match event {
            ReceiverEvent::Invited { source, content, chunk, .. } => {
                self.offered = Offered { source: source.clone(), size: None, content: *content, chunk: *chunk };
                self.spans = Spans::new(*chunk);
            }
            ReceiverEvent::Started { size, selective, .. } => {
                self.order(Order::Begin(Offered { size: *size, ..self.offered.clone() }));
                if let Some(size) = size.filter(|_| *selective) {
                    let Offered { source, content, chunk, .. } = self.offered.clone();
                    self.is_selective = true;
                    self.order(Order::Complete(HeldOffer { source, size, content, chunk }));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
