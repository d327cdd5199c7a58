//! State shared by a verified receiver and the session's side of it.

use crate::session::{Done, Needs};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// State shared by a verified receiver and the session's side of it.
#[derive(Debug, Default)]
pub struct ReceiverState {
    waiting: AtomicUsize,
    syncing: AtomicBool,
    /// Range of the stream that must come again, and whether it has not come at all.
    wanted: Mutex<Option<(Range<u64>, bool)>>,
    needs: Mutex<VecDeque<Needs>>,
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

    /// Sets whether the storage is settling or publishing.
    pub fn set_syncing(&self, is_syncing: bool) {
        self.syncing.store(is_syncing, Ordering::Relaxed);
    }

    pub(super) fn wanted(&self) -> Option<Range<u64>> {
        self.wanted.lock().as_ref().map(|(wanted, _)| wanted.clone())
    }

    pub(super) fn is_lacking(&self) -> bool {
        self.wanted.lock().as_ref().is_some_and(|(_, lacking)| *lacking)
    }

    pub(super) fn poll_needs(&self) -> Option<Needs> {
        self.needs.lock().pop_front()
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

    /// Returns the number of damages.
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
        self.needs.lock().push_back(needs);
    }

    pub(super) fn set_decided(&self, stretch: u64) {
        self.decided.store(stretch, Ordering::Relaxed);
    }

    pub(super) fn set_content_bytes(&self, bytes: u64) {
        self.content_bytes.store(bytes, Ordering::Release);
    }

    pub(super) fn set_on_request(&self) {
        self.only_asked.store(true, Ordering::Relaxed);
    }

    pub(super) fn conclude(&self, verdict: Done, cause: Option<io::Error>) {
        *self.conclusion.lock() = Some((verdict, cause));
    }
}
