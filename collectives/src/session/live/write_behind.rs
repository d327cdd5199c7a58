//! A writer on a thread of its own, which is given chunks, digests them, settles them when they are all verified, and
//! publishes them when the root has accepted them.

use super::storage::{Storage, StorageError};
use crate::session::application::{Sink, Tally};
use crate::session::{Done, Outcome, ReceiverEvent, Trailer};
use ethbcast_transport::Instant;
use ethbcast_transport::packet::Waker;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

/// Bytes of a chunk: every chunk costs two context switches, which count when seven receivers share two cores.
const CHUNK_BYTES: usize = 1 << 20;
/// Chunks that may wait for the writer: 8 MiB, 64 ms at 1 Gbit/s; what comes then waits in the feed.
const CHUNKS_WAITING: usize = 8;
/// How long bytes of a slow stream may wait for a chunk to fill.
const LINGER: Duration = Duration::from_millis(50);

#[derive(Debug)]
enum Order {
    Begin { source: String, size: Option<u64> },
    Write(Vec<u8>),
    End(Trailer),
    Publish,
}

/// What a writer and its sink share.
#[derive(Debug)]
struct WriterState {
    /// Orders that wait.
    waiting: AtomicUsize,
    /// The storage is settling or publishing.
    syncing: AtomicBool,
    conclusion: Mutex<Option<(Done, Option<io::Error>)>>,
    waker: Arc<Waker>,
}

impl WriterState {
    fn conclude(&self, verdict: Done, cause: Option<io::Error>) {
        *self.conclusion.lock() = Some((verdict, cause));
        self.waker.wake();
    }
}

/// The sink of a session whose bytes a [`Writer`] writes.
#[derive(Debug)]
pub struct WriteBehind {
    shared: Arc<WriterState>,
    orders: Option<SyncSender<Order>>,
    used: Receiver<Vec<u8>>,
    /// Disconnected when the writer has ended.
    ended: Receiver<()>,
    chunk: Vec<u8>,
    /// When the first bytes of the chunk came.
    chunk_since: Instant,
    source: String,
    cause: Option<io::Error>,
    publishing: bool,
}

/// The other end, to be [run](Writer::run) on a thread.
#[derive(Debug)]
pub struct Writer<S> {
    shared: Arc<WriterState>,
    storage: S,
    orders: Receiver<Order>,
    used: SyncSender<Vec<u8>>,
    _alive: SyncSender<()>,
}

/// A sink and the writer that empties it into `storage`; `waker` is told when a chunk has been written and of the
/// verdict.
pub fn write_behind<S: Storage>(storage: S, waker: &Arc<Waker>) -> (Writer<S>, WriteBehind) {
    let (to_writer, orders) = sync_channel(CHUNKS_WAITING);
    // All buffers are taken, and touched, at once: the peak of a long stream is that of a short one. One more is being
    // written, one being filled.
    let (recycle, used) = sync_channel(CHUNKS_WAITING + 2);
    (0..CHUNKS_WAITING + 2).for_each(|_| recycle.try_send(vec![0; CHUNK_BYTES]).expect("there is room for so many"));
    let (alive, ended) = sync_channel(0);
    let (waiting, syncing, conclusion) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::default());
    let shared = Arc::new(WriterState { waiting, syncing, conclusion, waker: Arc::clone(waker) });
    let writer = Writer { shared: Arc::clone(&shared), storage, orders, used: recycle, _alive: alive };
    let sink = WriteBehind {
        shared,
        orders: Some(to_writer),
        used,
        ended,
        chunk: Vec::new(),
        chunk_since: Instant::START,
        source: String::new(),
        cause: None,
        publishing: false,
    };
    (writer, sink)
}

impl<S: Storage> Writer<S> {
    /// Writes what comes until all is published, something fails, or the session ends.
    pub fn run(self) {
        let Writer { shared, mut storage, orders, used, _alive } = self;
        let mut tally = Tally::default();
        let mut last = None;
        while last.is_none() {
            let Ok(order) = orders.recv() else { break };
            shared.waiting.fetch_sub(1, Ordering::Relaxed);
            let (is_end, is_publish) = (matches!(order, Order::End(_)), matches!(order, Order::Publish));
            shared.syncing.store((is_end || is_publish) && storage.syncs(), Ordering::Relaxed);
            let obeyed = obey(&mut storage, &mut tally, &order);
            shared.syncing.store(false, Ordering::Relaxed);
            if let Order::Write(chunk) = order {
                drop(used.try_send(chunk));
                shared.waker.wake();
            } else if is_end && obeyed.is_ok() {
                shared.conclude(tally.verdict(Outcome::Verified, ""), None);
            }
            last = Some(obeyed).filter(|obeyed| is_publish || obeyed.is_err());
        }
        // What is half done is gone before anybody hears of it.
        drop(storage);
        match last {
            None => {}
            Some(Ok(())) => shared.conclude(tally.verdict(Outcome::Delivered, ""), None),
            Some(Err(error)) => {
                let (outcome, text, cause) = error.into_parts();
                shared.conclude(tally.verdict(outcome, text), cause);
            }
        }
        // Whatever still comes after a failure is thrown away, so that the sink never waits.
        for _ in orders {
            shared.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Carries out one order.
fn obey(storage: &mut impl Storage, tally: &mut Tally, order: &Order) -> Result<(), StorageError> {
    match order {
        Order::Begin { source, size } => storage.begin(source, *size),
        Order::Write(chunk) => {
            tally.add(chunk);
            storage.write(chunk)
        }
        Order::End(trailer) => {
            let verified = tally.verify(*trailer);
            verified.map_err(|mismatch| StorageError::new(Outcome::Damaged, mismatch.to_string()))?;
            storage.settle(*trailer)
        }
        Order::Publish => storage.publish(),
    }
}

impl WriteBehind {
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

    /// Gives an order; there must be room.
    fn order(&self, order: Order) {
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        if self.orders.as_ref().is_none_or(|orders| orders.send(order).is_err()) {
            log::debug!("the writer has ended");
        }
    }

    fn flush(&mut self) {
        if !self.chunk.is_empty() {
            let chunk = std::mem::take(&mut self.chunk);
            self.order(Order::Write(chunk));
        }
    }
}

impl Sink for WriteBehind {
    /// Whether two more orders (a last chunk and the end) can be given without waiting.
    fn has_room(&self) -> bool {
        self.orders.is_some() && self.shared.waiting.load(Ordering::Relaxed) + 2 <= CHUNKS_WAITING
    }

    fn write(&mut self, now: Instant, bytes: &[u8], _message_end: bool) {
        if self.chunk.is_empty() {
            self.chunk = self.used.try_recv().unwrap_or_else(|_| Vec::with_capacity(CHUNK_BYTES));
            self.chunk.clear();
            self.chunk_since = now;
        }
        self.chunk.extend_from_slice(bytes);
        // No room for another frame like this one.
        if self.chunk.len() + bytes.len() > CHUNK_BYTES {
            self.flush();
        }
    }

    fn finish(&mut self, _now: Instant, trailer: Trailer) {
        self.flush();
        self.order(Order::End(trailer));
    }

    fn publish(&mut self, _now: Instant) -> bool {
        if !std::mem::replace(&mut self.publishing, true) {
            self.order(Order::Publish);
        }
        false
    }

    fn is_syncing(&self) -> bool {
        self.shared.syncing.load(Ordering::Relaxed)
    }

    /// A slow stream (somebody's pipe) is handed on before a chunk is full.
    fn idle(&mut self, now: Instant) {
        if now.since(self.chunk_since) >= LINGER {
            self.flush();
        }
    }

    fn verdict(&mut self, _now: Instant) -> Option<Done> {
        let has_ended = self.ended.try_recv() == Err(TryRecvError::Disconnected);
        if let Some((verdict, cause)) = self.shared.conclusion.lock().take() {
            self.cause = cause;
            self.publishing = false;
            return Some(verdict);
        }
        let panicked = has_ended && self.orders.is_some();
        panicked.then(|| Tally::default().verdict(Outcome::WriteFailed, "the writer panicked"))
    }

    fn on_event(&mut self, _now: Instant, event: &ReceiverEvent) {
        match event {
            ReceiverEvent::Invited { source, .. } => self.source.clone_from(source),
            ReceiverEvent::Started { size, .. } => {
                self.order(Order::Begin { source: self.source.clone(), size: *size });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
