//! A writer on a thread of its own: checks the spans it is given, asks again for what came damaged, writes what is
//! right, settles it when all is there, and publishes it when the root has accepted it.

use super::hashers::hashers;
use super::read_again::ReadAt;
use super::storage::{Offered, Storage, StorageError};
use crate::session::ledger::{Completed, Completer, Completion, Decoder, HeldOffer, Holdings, Spans};
use crate::session::{Done, Needs, Outcome, Trailer};
use ethbcast_transport::packet::Waker;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

/// What a sink tells its writer.
#[derive(Debug)]
pub(super) enum Order {
    /// The session has begun.
    Begin(Offered),
    /// Some of the content may be here: only what somebody lacks comes.
    Complete(HeldOffer),
    /// The next span, or the next bytes of what somebody lacks.
    Write(Vec<u8>),
    /// The next whole chunks of a span that is still coming.
    Early(Vec<u8>),
    /// What was wanted again, from there on.
    Supply(u64, Vec<u8>),
    /// Why that cannot be had.
    Deny(String),
    /// That was all.
    End(Trailer),
    /// The root has accepted it.
    Publish,
}

/// What a writer and its sink share.
#[derive(Debug)]
pub(super) struct WriterState {
    waker: Arc<Waker>,
    /// Orders that wait, those behind a damaged span among them.
    waiting: AtomicUsize,
    /// The storage is settling or publishing.
    syncing: AtomicBool,
    /// What of the stream is to come again, and whether it has not come at all.
    wanted: Mutex<Option<(Range<u64>, bool)>>,
    /// What is lacking of the next stretches, and below which it is decided what comes.
    needs: Mutex<VecDeque<Needs>>,
    decided: AtomicU64,
    /// Content bytes that are right and with the storage.
    content_bytes: AtomicU64,
    /// How often something came damaged.
    damages: AtomicU64,
    /// The root only asks what is lacking.
    only_asked: AtomicBool,
    conclusion: Mutex<Option<(Done, Option<io::Error>)>>,
}

impl WriterState {
    pub(super) fn new(waker: &Arc<Waker>) -> WriterState {
        WriterState {
            waker: Arc::clone(waker),
            waiting: AtomicUsize::new(0),
            syncing: AtomicBool::new(false),
            wanted: Mutex::default(),
            needs: Mutex::default(),
            decided: AtomicU64::new(0),
            content_bytes: AtomicU64::new(0),
            damages: AtomicU64::new(0),
            only_asked: AtomicBool::new(false),
            conclusion: Mutex::default(),
        }
    }

    /// What is told when something has happened here.
    pub(super) fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    /// Orders that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// One more order waits.
    pub(super) fn order(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    fn obeyed(&self, orders: usize) {
        self.waiting.fetch_sub(orders, Ordering::Relaxed);
    }

    /// Whether the storage is settling or publishing.
    pub(super) fn is_syncing(&self) -> bool {
        self.syncing.load(Ordering::Relaxed)
    }

    /// What of the stream is to come again.
    pub(super) fn wanted(&self) -> Option<Range<u64>> {
        self.wanted.lock().as_ref().map(|(wanted, _)| wanted.clone())
    }

    /// Whether it has not come at all.
    pub(super) fn is_lacking(&self) -> bool {
        self.wanted.lock().as_ref().is_some_and(|(_, lacking)| *lacking)
    }

    /// What is lacking of the next stretch.
    pub(super) fn poll_needs(&self) -> Option<Needs> {
        self.needs.lock().pop_front()
    }

    /// Below this stretch it is decided what comes.
    pub(super) fn decided(&self) -> u64 {
        self.decided.load(Ordering::Relaxed)
    }

    /// What was wanted is on its way to the writer, which says what else it wants.
    pub(super) fn is_supplied(&self) {
        *self.wanted.lock() = None;
    }

    /// Content bytes that are right and with the storage.
    pub(super) fn content_bytes(&self) -> u64 {
        self.content_bytes.load(Ordering::Acquire)
    }

    /// How often something came damaged.
    pub(super) fn damages(&self) -> u64 {
        self.damages.load(Ordering::Relaxed)
    }

    /// Whether the root only asks what is lacking.
    pub(super) fn is_only_asked(&self) -> bool {
        self.only_asked.load(Ordering::Relaxed)
    }

    /// What it came to, said once.
    pub(super) fn take_conclusion(&self) -> Option<(Done, Option<io::Error>)> {
        self.conclusion.lock().take()
    }

    fn conclude(&self, verdict: Done, cause: Option<io::Error>) {
        *self.conclusion.lock() = Some((verdict, cause));
        self.waker.wake();
    }
}

/// The other end of a [`WriteBehind`](super::WriteBehind), to be [run](Writer::run) on a thread.
#[derive(Debug)]
pub struct Writer<S> {
    shared: Arc<WriterState>,
    storage: S,
    decoder: Decoder,
    holdings: Option<Arc<dyn Holdings>>,
    completer: Option<Completer>,
    /// It was said what is wanted, and nothing has come of it since. Whatever else comes, that is not said once more:
    /// what is on its way would be asked for again.
    asked: bool,
    /// Chunks of the span that is being checked that stand where they belong.
    in_place: u64,
    orders: Receiver<Order>,
    /// Orders behind a span that is damaged.
    waiting: VecDeque<Order>,
    used: SyncSender<Vec<u8>>,
    kept: SyncSender<Box<dyn ReadAt>>,
    _alive: SyncSender<()>,
}

impl<S: Storage> Writer<S> {
    pub(super) fn new(
        shared: Arc<WriterState>,
        storage: S,
        orders: Receiver<Order>,
        used: SyncSender<Vec<u8>>,
        kept: SyncSender<Box<dyn ReadAt>>,
        _alive: SyncSender<()>,
    ) -> Writer<S> {
        let (decoder, waiting) = (Decoder::default(), VecDeque::new());
        let (holdings, completer, asked, in_place) = (None, None, false, 0);
        Writer { shared, storage, decoder, holdings, completer, asked, in_place, orders, waiting, used, kept, _alive }
    }

    /// What may be here of a content that is about to come.
    pub fn holding(self, holdings: Arc<dyn Holdings>) -> Writer<S> {
        Writer { holdings: Some(holdings), ..self }
    }

    /// Writes what comes until all is published, something fails, or the session ends.
    pub fn run(mut self) {
        let last = self.work();
        let Writer { shared, storage, decoder, orders, waiting, _alive, .. } = self;
        let note = storage.note();
        // What is half done is gone before anybody hears of it.
        drop(storage);
        match last {
            None => {}
            Some(Ok(())) => shared.conclude(verdict(&decoder, Outcome::Delivered, note), None),
            Some(Err(error)) => {
                let (outcome, text, cause) = error.into_parts();
                shared.conclude(verdict(&decoder, outcome, text), cause);
            }
        }
        // Whatever still comes after a failure is thrown away, so that the sink never waits.
        shared.obeyed(waiting.len());
        orders.iter().for_each(|_| shared.obeyed(1));
    }

    /// Obeys until all is published or something fails; none if the session ends before.
    fn work(&mut self) -> Option<Result<(), StorageError>> {
        loop {
            match self.orders.recv().ok()? {
                Order::Supply(at, bytes) => {
                    self.shared.obeyed(1);
                    self.asked = false;
                    self.decoder.supply(at, &bytes);
                }
                Order::Deny(why) => {
                    self.shared.obeyed(1);
                    self.decoder.deny(&why);
                }
                order => self.waiting.push_back(order),
            }
            match self.go_on() {
                Ok(false) => {}
                Ok(true) => return Some(Ok(())),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Obeys all orders that do not wait for something damaged; whether all is published.
    fn go_on(&mut self) -> Result<bool, StorageError> {
        loop {
            self.write_checked()?;
            if let Some(wanted) = self.decoder.wanted() {
                if !std::mem::replace(&mut self.asked, true) {
                    *self.shared.wanted.lock() = Some((wanted, self.decoder.is_lacking()));
                    self.shared.waker.wake();
                }
                return Ok(false);
            }
            if self.complete() {
                continue;
            }
            let Some(order) = self.waiting.pop_front() else { return Ok(false) };
            self.shared.obeyed(1);
            if self.obey(order)? {
                return Ok(true);
            }
        }
    }

    /// Carries out one order; whether it was the last.
    fn obey(&mut self, order: Order) -> Result<bool, StorageError> {
        match order {
            Order::Begin(offered) => {
                self.decoder = Decoder::new(offered.chunk).hashed_by(hashers());
                self.storage.begin(&offered)?;
                self.storage.kept().map(|kept| self.kept.try_send(kept));
            }
            Order::Complete(offer) => self.completer = Some(Completer::new(&offer, self.holdings.clone())),
            Order::Write(bytes) => match &mut self.completer {
                Some(completer) => {
                    completer.take(&bytes);
                    drop(self.used.try_send(bytes));
                }
                None => self.decoder.take(bytes),
            },
            Order::Early(bytes) => match self.decoder.take_early(&bytes) {
                [] => {}
                right => self.storage.write(right)?,
            },
            Order::End(trailer) if self.completer.as_ref().is_some_and(|completer| !completer.is_done()) => {
                self.completer.iter_mut().for_each(Completer::finish);
                self.shared.order();
                self.waiting.push_front(Order::End(trailer));
            }
            Order::End(trailer) => {
                if trailer != self.decoder.trailer() {
                    log::warn!("the end of the stream says something else than has come: the sender is asked");
                }
                let content = self.decoder.content();
                self.sync(|storage| storage.settle(content))?;
                self.shared.conclude(verdict(&self.decoder, Outcome::Verified, String::new()), None);
            }
            Order::Publish => return self.sync(Storage::publish).map(|()| true),
            Order::Supply(..) | Order::Deny(_) => {}
        }
        Ok(false)
    }

    /// Takes the next span of what has come and what is here, or says what is lacking; false if there is nothing.
    fn complete(&mut self) -> bool {
        let Some(completer) = &mut self.completer else { return false };
        let completion = completer.poll(|| Vec::with_capacity(Spans::MOST_BYTES));
        self.shared.decided.store(completer.decided(), Ordering::Relaxed);
        match completion {
            None => return false,
            Some(Completion::Needs(needs)) => {
                self.shared.needs.lock().push_back(needs);
                self.shared.waker.wake();
            }
            Some(Completion::Passed) => self.shared.only_asked.store(true, Ordering::Relaxed),
            Some(Completion::Span(Completed { span, here, own, in_place })) => {
                self.in_place = in_place;
                self.decoder.take_partly(span, here, own);
            }
        }
        true
    }

    fn sync(&mut self, work: impl FnOnce(&mut S) -> Result<(), StorageError>) -> Result<(), StorageError> {
        self.shared.syncing.store(self.storage.syncs(), Ordering::Relaxed);
        let done = work(&mut self.storage);
        self.shared.syncing.store(false, Ordering::Relaxed);
        done
    }

    /// Writes the span that was taken last, if all of it is right.
    fn write_checked(&mut self) -> Result<(), StorageError> {
        while let Some(damage) = self.decoder.poll_damage() {
            log::warn!("{damage}");
            self.shared.damages.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(text) = self.decoder.failed() {
            return Err(StorageError::new(Outcome::Damaged, text));
        }
        if let Some(content) = self.decoder.poll() {
            if self.in_place == 0 {
                self.storage.write(content.bytes())?;
            } else {
                for (number, (chunk, own)) in content.chunks().enumerate() {
                    let stays = own && self.in_place >> number & 1 == 1;
                    if stays { self.storage.keep(chunk)? } else { self.storage.write(chunk)? }
                }
            }
            self.shared.content_bytes.store(self.decoder.content_bytes(), Ordering::Release);
            drop(self.used.try_send(content.into_memory()));
            self.shared.waker.wake();
        }
        Ok(())
    }
}

/// A verdict on what has come and is right.
fn verdict(decoder: &Decoder, outcome: Outcome, text: String) -> Done {
    let Trailer { bytes, digest } = decoder.trailer();
    Done { outcome, bytes, digest, text }
}
