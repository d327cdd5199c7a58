//! Thread that verifies and stores a receiver's data, apart from the one that serves frames. A slow
//! disk thus slows down the stream, and not the thread that serves frames.

use super::content::{Storage, StorageError};
use super::read_again::{ReadAgain, ReadAt};
use super::reader::hashers;
use crate::keys::ContentCipher;
use crate::session::application::{Again, SinkState, Tally};
use crate::session::message::Outcome;
use crate::session::verified::{
    Backend, ChunkSize, HaveSet, Order, ReceiverOutput, ReceiverState, SpanSink, Spans,
    VerifiedReceiver,
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};
use crossbeam_queue::ArrayQueue;
use ethbcast_transport::Instant;
use ethbcast_transport::packet::Waker;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Number of orders that may wait for the writer: 8 MiB, 64 ms at 1 Gbit/s; later data waits in the
/// feed.
const ORDERS_WAITING: usize = 8;

/// Sink of a session whose bytes a [`Writer`] writes.
pub type WriteBehind = SpanSink<OnThread>;

/// Connection to a [`Writer`]; `ended` is disconnected when that has ended.
#[derive(Debug)]
pub struct OnThread {
    state: Arc<ReceiverState>,
    orders: Option<Sender<Order>>,
    used: Arc<ArrayQueue<Vec<u8>>>,
    ended: Receiver<()>,
    kept: Receiver<Box<dyn ReadAt>>,
    again: Option<ReadAgain>,
    waker: Arc<Waker>,
    cipher: ContentCipher,
}

/// Writer of a content, to be [run](Writer::run) on a thread: writes verified bytes, settles them
/// when all are there, and publishes them when the root has accepted them.
#[derive(Debug)]
pub struct Writer<S> {
    receiver: VerifiedReceiver,
    state: Arc<ReceiverState>,
    storage: S,
    orders: Receiver<Order>,
    used: Arc<ArrayQueue<Vec<u8>>>,
    kept: Sender<Box<dyn ReadAt>>,
    waker: Arc<Waker>,
    _alive: Sender<()>,
}

/// Creates a sink and the writer that empties it into `storage`. `waker` is woken when a span has
/// been written, when a range must be fetched again, and for the verdict.
pub fn write_behind<S: Storage>(storage: S, waker: &Arc<Waker>) -> (Writer<S>, WriteBehind) {
    // One more place, so that bytes that were wanted again do not queue behind spans.
    let (to_writer, orders) = bounded(ORDERS_WAITING + 1);
    // All memory is allocated and touched at once, so that the peak of a long stream is that of a
    // short one. One more span is being written, and one filled.
    let used = Arc::new(ArrayQueue::new(ORDERS_WAITING + 2));
    (0..used.capacity()).for_each(|_| {
        used.push(vec![0; Spans::MAX_BYTES])
            .expect("there is room for so many")
    });
    let ((keep, kept), (_alive, ended)) = (bounded(1), bounded(0));
    let state = Arc::new(ReceiverState::default());
    let writer = Writer {
        receiver: VerifiedReceiver::new(&state).hashed_by(hashers),
        state: Arc::clone(&state),
        storage,
        orders,
        used: Arc::clone(&used),
        kept: keep,
        waker: Arc::clone(waker),
        _alive,
    };
    let backend = OnThread {
        state: Arc::clone(&state),
        orders: Some(to_writer),
        used,
        ended,
        kept,
        again: None,
        waker: Arc::clone(waker),
        cipher: ContentCipher::default(),
    };
    (writer, SpanSink::new(backend, state, ORDERS_WAITING))
}

impl WriteBehind {
    /// Ends the writer and waits for it, for `limit` at most, so that partial data is removed
    /// before the process ends. Returns false if the writer is stuck.
    pub fn close(&mut self, limit: Duration) -> bool {
        let thread = self.backend_mut();
        thread.orders = None;
        thread.ended.recv_timeout(limit) != Err(RecvTimeoutError::Timeout)
    }
}

impl Backend for OnThread {
    fn give(&mut self, _now: Instant, order: Order) {
        if let Order::Begin(_, cipher) = &order {
            self.cipher = cipher.clone();
        }
        if self
            .orders
            .as_ref()
            .is_none_or(|orders| orders.send(order).is_err())
        {
            log::debug!("the writer has ended");
        }
    }

    fn memory(&mut self) -> Vec<u8> {
        self.used
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(Spans::MAX_BYTES))
    }

    fn is_open(&self) -> bool {
        self.orders.is_some()
    }

    fn turn(&mut self, _now: Instant) -> SinkState {
        let has_panicked = self.has_ended() && self.is_open();
        let verdict = || Tally::default().verdict(Outcome::WriteFailed, "the writer panicked");
        SinkState {
            is_syncing: self.state.is_syncing(),
            ..has_panicked.then(verdict).into()
        }
    }

    fn keeps(&mut self, chunk: ChunkSize) -> bool {
        if self.again.is_none() {
            self.again = self
                .kept
                .try_recv()
                .ok()
                .map(|kept| ReadAgain::new(kept, chunk, &self.waker));
            self.again
                .iter_mut()
                .for_each(|again| again.protect(&self.cipher));
        }
        self.again.is_some()
    }

    fn read_again(
        &mut self,
        _now: Instant,
        _chunk: ChunkSize,
        part: Range<u64>,
        content_bytes: u64,
    ) -> Again<'_> {
        match &mut self.again {
            Some(again) => again.read(part, content_bytes),
            None => Again::Impossible("nothing is kept here".to_owned()),
        }
    }

    fn has_ended(&mut self) -> bool {
        self.ended.try_recv() == Err(TryRecvError::Disconnected)
    }
}

impl<S: Storage> Writer<S> {
    pub fn holding(mut self, holdings: Arc<dyn HaveSet>) -> Writer<S> {
        self.receiver.hold(holdings);
        self
    }

    /// Counts as syncing until all is settled, for a storage that waits for another network.
    pub(super) fn syncing(self) -> Writer<S> {
        self.state.set_syncing(true);
        self
    }

    pub fn run(mut self) {
        let last = self.work();
        let Writer {
            mut receiver,
            storage,
            orders,
            waker,
            _alive,
            ..
        } = self;
        let note = storage.note();
        // Partial data is removed before the failure is reported.
        drop(storage);
        match last {
            None => {}
            Some(Ok(())) => receiver.published(note),
            Some(Err(error)) => {
                let (outcome, text, cause) = error.into_parts();
                receiver.fail(outcome, text, cause);
            }
        }
        waker.wake();
        // Later orders are discarded after a failure, so that the sink never waits.
        orders.iter().for_each(|order| receiver.take(order));
    }

    /// Carries out orders until all is published or a failure occurs; `None` if the session ends
    /// first.
    fn work(&mut self) -> Option<Result<(), StorageError>> {
        loop {
            self.receiver.take(self.orders.recv().ok()?);
            while let Some(output) = self.receiver.poll_output() {
                match self.carry_out(output) {
                    Ok(false) => {}
                    Ok(true) => return Some(Ok(())),
                    Err(error) => return Some(Err(error)),
                }
            }
        }
    }

    fn carry_out(&mut self, output: ReceiverOutput) -> Result<bool, StorageError> {
        match output {
            ReceiverOutput::Begin(offered) => {
                self.storage.begin(&offered)?;
                self.storage.kept().map(|kept| self.kept.try_send(kept));
            }
            ReceiverOutput::Write(bytes) => self.storage.write(&bytes)?,
            ReceiverOutput::Span(span) => {
                span.store(&mut self.storage, S::write, S::keep)?;
                self.receiver.wrote();
                drop(self.used.push(span.into_memory()));
                self.waker.wake();
            }
            ReceiverOutput::Used(memory) => drop(self.used.push(memory)),
            ReceiverOutput::Said => self.waker.wake(),
            ReceiverOutput::Damaged(damage) => log::warn!("{damage}"),
            ReceiverOutput::Settle {
                content,
                end_differs,
            } => {
                if end_differs {
                    log::warn!(
                        "the end of the stream contradicts the received bytes: the sender decides"
                    );
                }
                self.sync(|storage| storage.settle(content))?;
                self.receiver.settled();
                self.waker.wake();
            }
            ReceiverOutput::Publish => return self.sync(Storage::publish).map(|()| true),
            ReceiverOutput::Failed(text) => return Err(StorageError::new(Outcome::Damaged, text)),
        }
        Ok(false)
    }

    fn sync(
        &mut self,
        work: impl FnOnce(&mut S) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        self.state.set_syncing(self.storage.syncs());
        let done = work(&mut self.storage);
        self.state.set_syncing(false);
        done
    }
}

#[cfg(test)]
mod tests;
