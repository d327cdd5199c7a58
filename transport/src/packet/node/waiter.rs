//! Waiting of a process for frames from the wire or from other processes on its host.

use super::place::Place;
use crate::Instant;
use crate::link::{Interest, Waiter};
use crate::packet::sleep::{Sleeper, SocketEvents};
use std::sync::Arc;

/// Waiter of one thread on a [`NodePort`](super::NodePort).
#[derive(Debug)]
pub struct NodeWaiter {
    sleeper: Sleeper,
    place: Option<Arc<Place>>,
    thread: u32,
}

impl NodeWaiter {
    pub(super) fn new(sleeper: Sleeper, place: Option<Arc<Place>>, thread: u32) -> NodeWaiter {
        NodeWaiter { sleeper, place, thread }
    }
}

impl Waiter for NodeWaiter {
    type Seen = SocketEvents;

    fn wait(&self, now: Instant, wanted: Interest) -> SocketEvents {
        let Some(place) = self.place.as_ref().filter(|_| wanted.arrivals) else {
            return self.sleeper.wait(now, wanted);
        };
        if !place.board.fall_asleep(place.port_id, self.thread) {
            // A frame is waiting: only poll, without sleeping.
            return self.sleeper.wait(now, Interest { arrivals: false, until: Some(Instant::START), ..wanted });
        }
        let seen = self.sleeper.wait_or_ring(now, wanted, &place.bell);
        place.board.awake(place.port_id, self.thread);
        seen
    }

    fn take_wake(&self) -> bool {
        self.sleeper.take_wake()
    }

    fn yield_now(&self) {
        self.sleeper.yield_now();
    }

    fn wake(&self) {
        self.sleeper.wake();
    }
}
