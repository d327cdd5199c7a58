//! Rate limit of each host, adjustable while the session runs.

use super::cancel::Loops;
use crate::session::{Rate, Root};
use ethbcast_transport::Instant;
use ethbcast_transport::packet::Waker;
use parking_lot::Mutex;
use std::sync::Arc;

/// Rate limit of each host of the sessions sent with it: the sender, and each relay. Clones are the
/// same limit, which can be [set](RateLimit::set) from any thread.
///
/// Every frame counts with its Ethernet header, as interfaces count them. Within any second a host
/// stays within 1 % of the limit plus one frame.
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
    /// Creates a limit for sessions that are still to be started.
    pub fn new(rate: Rate) -> RateLimit {
        RateLimit { shared: Arc::new(Shared { rate: Mutex::new(rate), loops: Loops::default() }) }
    }

    /// Returns the limit.
    pub fn rate(&self) -> Rate {
        *self.shared.rate.lock()
    }

    /// Sets another limit, which applies at the sender at once, and at receivers a moment later.
    pub fn set(&self, rate: Rate) {
        *self.shared.rate.lock() = rate;
        self.shared.loops.wake();
    }

    pub(super) fn watch(&self, waker: &Arc<Waker>) {
        self.shared.loops.watch(waker);
    }

    pub(super) fn apply(&self, root: &mut Root, now: Instant) {
        root.set_rate(now, self.rate());
    }
}
