//! Ending a session, or the wait for more receivers, from another thread.

use ethbcast_transport::packet::Waker;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, Weak};

/// A handle to end a session with, from whatever thread; clones end the same sessions.
///
/// It is given to a session by [`Options::cancel`](super::Options), and works before its start, too. The other hosts
/// are told. A reader or writer that blocks is waited for.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    shared: Arc<CancelState>,
}

#[derive(Debug, Default)]
struct CancelState {
    reason: OnceLock<String>,
    loops: Loops,
}

/// The loops to wake; those of sessions that are over are gone.
#[derive(Debug, Default)]
pub(super) struct Loops(Mutex<Vec<Weak<Waker>>>);

impl Loops {
    pub(super) fn wake(&self) {
        self.0.lock().iter().filter_map(Weak::upgrade).for_each(|waker| waker.wake());
    }

    /// From now on this loop is among them, for as long as it is there.
    pub(super) fn watch(&self, waker: &Arc<Waker>) {
        let mut wakers = self.0.lock();
        wakers.retain(|waker| waker.strong_count() > 0);
        wakers.push(Arc::downgrade(waker));
    }
}

impl Cancel {
    /// A handle for sessions that have still to be started.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Ends the sessions soon.
    pub fn cancel(&self) {
        self.cancel_because("the sender gave up: cancelled by its user");
    }

    /// The same; the receivers of a session that is being sent are told this sentence.
    pub fn cancel_because(&self, reason: &str) {
        self.shared.reason.get_or_init(|| reason.to_owned());
        self.shared.loops.wake();
    }

    /// Whether it was used.
    pub fn is_cancelled(&self) -> bool {
        self.reason().is_some()
    }

    pub(super) fn reason(&self) -> Option<&str> {
        self.shared.reason.get().map(String::as_str)
    }

    /// From now on a cancellation wakes this loop, for as long as it is there.
    pub(super) fn watch(&self, waker: &Arc<Waker>) {
        self.shared.loops.watch(waker);
    }
}

/// A handle by which a sender's user says, from whatever thread, that those who are there will do; see
/// [`Options::start`](super::Options).
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// What ends a wait ends it here, too: the wait for more receivers.
    wait: Cancel,
}

impl Start {
    /// A handle for sessions that have still to be started.
    pub fn new() -> Start {
        Start::default()
    }

    /// Starts with those who are there, or with the first who comes.
    pub fn now(&self) {
        self.wait.cancel();
    }

    pub(super) fn is_now(&self) -> bool {
        self.wait.is_cancelled()
    }

    pub(super) fn watch(&self, waker: &Arc<Waker>) {
        self.wait.watch(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stays_and_loops_that_have_ended_are_forgotten() {
        let cancel = Cancel::new();
        for _ in 0..3 {
            cancel.watch(&Arc::new(Waker::new().expect("a descriptor")));
        }
        assert_eq!(cancel.shared.loops.0.lock().len(), 1);
        let clone = cancel.clone();
        std::thread::spawn(move || clone.cancel_because("enough")).join().expect("a thread");
        cancel.cancel();
        assert_eq!((cancel.is_cancelled(), cancel.reason()), (true, Some("enough")));
    }
}
