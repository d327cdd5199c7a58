//! Cancellation of a session, or of the wait for more receivers, from another thread.

use ethbcast_transport::packet::Waker;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, Weak};

/// Handle that ends sessions from any thread; clones end the same sessions.
///
/// A handle is passed in [`RunOptions::cancel`](super::RunOptions), and may be used before the session starts.
/// The other hosts are notified. A reader or writer that blocks is waited for.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    shared: Arc<CancelState>,
}

#[derive(Debug, Default)]
struct CancelState {
    reason: OnceLock<String>,
    loops: Loops,
}

#[derive(Debug, Default)]
pub(super) struct Loops(Mutex<Vec<Weak<Waker>>>);

impl Loops {
    pub(super) fn wake(&self) {
        self.0.lock().iter().filter_map(Weak::upgrade).for_each(|waker| waker.wake());
    }

    pub(super) fn watch(&self, waker: &Arc<Waker>) {
        let mut wakers = self.0.lock();
        wakers.retain(|waker| waker.strong_count() > 0);
        wakers.push(Arc::downgrade(waker));
    }
}

impl Cancel {
    /// Creates a handle for sessions that are still to be started.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Ends the sessions soon.
    pub fn cancel(&self) {
        self.cancel_because("the sender gave up: cancelled by its user");
    }

    /// Ends the sessions soon; a sender sends `reason` to its receivers.
    pub fn cancel_because(&self, reason: &str) {
        self.shared.reason.get_or_init(|| reason.to_owned());
        self.shared.loops.wake();
    }

    /// Whether the handle was used.
    pub fn is_cancelled(&self) -> bool {
        self.reason().is_some()
    }

    pub(super) fn reason(&self) -> Option<&str> {
        self.shared.reason.get().map(String::as_str)
    }

    pub(super) fn watch(&self, waker: &Arc<Waker>) {
        self.shared.loops.watch(waker);
    }
}

/// Handle that starts a sender from any thread with the receivers present; see
/// [`SendOptions::start`](super::SendOptions).
#[derive(Clone, Debug, Default)]
pub struct Start {
    wait: Cancel,
}

impl Start {
    /// Creates a handle for sessions that are still to be started.
    pub fn new() -> Start {
        Start::default()
    }

    /// Starts with the receivers present, or with the first that comes.
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
