//! A limit to what each host sends, which can be set anew while the session runs.

use super::cancel::Loops;
use crate::session::{Rate, Root};
use ethbcast_transport::Instant;
use ethbcast_transport::packet::Waker;
use parking_lot::Mutex;
use std::sync::Arc;

/// How much each host of the sessions that are sent with it may send: the sender, and each receiver that hands on what
/// comes. Clones are the same limit, and it can be [set](RateLimit::set) from whatever thread.
///
/// Every frame counts, with its Ethernet header, as interfaces count them. Within any second a host stays within 1 % of
/// the limit, and a frame.
#[derive(Clone, Debug)]
pub struct RateLimit {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    rate: Mutex<Rate>,
    loops: Loops,
}

impl RateLimit {
    /// A limit for sessions that have still to be started.
    pub fn new(rate: Rate) -> RateLimit {
        RateLimit { shared: Arc::new(Shared { rate: Mutex::new(rate), loops: Loops::default() }) }
    }

    /// The limit.
    pub fn rate(&self) -> Rate {
        *self.shared.rate.lock()
    }

    /// Sets another, which holds at the sender at once, and at receivers a moment later.
    pub fn set(&self, rate: Rate) {
        *self.shared.rate.lock() = rate;
        self.shared.loops.wake();
    }

    pub(super) fn watch(&self, waker: &Arc<Waker>) {
        self.shared.loops.watch(waker);
    }

    /// Tells the root, if it does not know yet.
    pub(super) fn apply(&self, root: &mut Root, now: Instant) {
        root.set_rate(now, self.rate());
    }
}
