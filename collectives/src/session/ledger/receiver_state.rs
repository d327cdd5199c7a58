//! What a verified receiver and the session's side of it both see.

use crate::session::{Done, Needs};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What a verified receiver and the session's side of it both see.
#[derive(Debug, Default)]
pub struct ReceiverState {
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

impl ReceiverState {
    /// Orders that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// One more order waits.
    pub(super) fn order(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// So many orders wait no longer.
    pub(super) fn obeyed(&self, orders: usize) {
        self.waiting.fetch_sub(orders, Ordering::Relaxed);
    }

    /// Whether the storage is settling or publishing.
    pub fn is_syncing(&self) -> bool {
        self.syncing.load(Ordering::Relaxed)
    }

    /// The storage begins to settle or publish, or has ended.
    pub fn set_syncing(&self, is_syncing: bool) {
        self.syncing.store(is_syncing, Ordering::Relaxed);
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

    /// What was wanted is on its way to the receiver, which says what else it wants.
    pub(super) fn is_supplied(&self) {
        *self.wanted.lock() = None;
    }

    /// Content bytes that are right and with the storage.
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes.load(Ordering::Acquire)
    }

    /// How often something came damaged.
    pub fn damages(&self) -> u64 {
        self.damages.load(Ordering::Relaxed)
    }

    /// Whether the root only asks what is lacking.
    pub fn is_only_asked(&self) -> bool {
        self.only_asked.load(Ordering::Relaxed)
    }

    /// What it came to, said once.
    pub(super) fn take_conclusion(&self) -> Option<(Done, Option<io::Error>)> {
        self.conclusion.lock().take()
    }

    /// Something came damaged once more.
    pub(super) fn count_damage(&self) {
        self.damages.fetch_add(1, Ordering::Relaxed);
    }

    /// This of the stream is to come again; `lacking` if it has not come at all.
    pub(super) fn want(&self, wanted: Range<u64>, lacking: bool) {
        *self.wanted.lock() = Some((wanted, lacking));
    }

    /// This is lacking of the next stretch.
    pub(super) fn need(&self, needs: Needs) {
        self.needs.lock().push_back(needs);
    }

    pub(super) fn set_decided(&self, stretch: u64) {
        self.decided.store(stretch, Ordering::Relaxed);
    }

    pub(super) fn set_content_bytes(&self, bytes: u64) {
        self.content_bytes.store(bytes, Ordering::Release);
    }

    pub(super) fn set_only_asked(&self) {
        self.only_asked.store(true, Ordering::Relaxed);
    }

    pub(super) fn conclude(&self, verdict: Done, cause: Option<io::Error>) {
        *self.conclusion.lock() = Some((verdict, cause));
    }
}
