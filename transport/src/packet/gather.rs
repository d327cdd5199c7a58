//! When to sleep through arrivals.
//!
//! The kernel wakes a sleeper for every frame, and a wake-up costs many times what the frame does (`tests/cost.rs`). A host
//! that only takes in a bulk transfer can sleep a fixed time instead and find several frames, as a NIC does that moderates
//! its interrupts. A host that answers, relays or waits for an answer cannot: there each such sleep would add to the
//! latency of everybody behind it. So we sleep so only while the traffic has the shape of a bulk transfer that ends here.

use std::time::Duration;

/// Frames after which the shape of the traffic is judged anew: 1.5 MB at MTU 1500, more than a message whose latency matters.
const WINDOW_FRAMES: usize = 1024;
/// A bulk transfer ends here if for so many frames received at most one is sent (a receiver acknowledges every 16 frames).
const BULK_RATIO: usize = 12;
/// A sleep that found fewer frames than this would better have been ended by the first (a timer costs two frames' wake-ups).
const WORTHWHILE_FRAMES: usize = 3;

/// Judges the traffic of one loop.
pub(super) struct Gather {
    nap: Duration,
    received: usize,
    sent: usize,
    bulk: bool,
    napped: bool,
}

impl Gather {
    /// Sleeps of length `nap`; never, if that is zero.
    pub(super) fn new(nap: Duration) -> Self {
        Gather { nap, received: 0, sent: 0, bulk: false, napped: false }
    }

    /// Takes note of what one round of the loop received and sent.
    pub(super) fn round(&mut self, received: usize, sent: usize) {
        self.received += received;
        self.sent += sent;
        if self.received >= WINDOW_FRAMES {
            self.bulk = self.sent * BULK_RATIO <= self.received;
            (self.received, self.sent) = (0, 0);
        }
        if std::mem::take(&mut self.napped) && received < WORTHWHILE_FRAMES {
            self.bulk = false;
        }
    }

    /// How long to sleep through arrivals now, if at all; the loop must be back within `limit`.
    pub(super) fn nap(&mut self, limit: Option<Duration>) -> Option<Duration> {
        let fits = limit.is_none_or(|limit| limit >= self.nap);
        self.napped = self.bulk && fits && !self.nap.is_zero();
        self.napped.then_some(self.nap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAP: Duration = Duration::from_micros(100);

    /// A loop after `rounds` rounds that each received and sent so much.
    fn after(rounds: usize, received: usize, sent: usize) -> Gather {
        let mut gather = Gather::new(NAP);
        for _ in 0..rounds {
            gather.round(received, sent);
        }
        gather
    }

    #[test]
    fn only_the_end_of_a_bulk_transfer_naps() {
        assert_eq!(after(64, 16, 1).nap(None), Some(NAP), "a receiver that acknowledges every 16 frames");
        assert_eq!(after(63, 16, 1).nap(None), None, "not yet known");
        assert_eq!(after(5000, 1, 1).nap(None), None, "a relay, or one side of a ping-pong");
        assert_eq!(after(5000, 7, 7).nap(None), None, "the root of a barrier");
        assert_eq!(after(5000, 0, 64).nap(None), None, "a sender");
    }

    #[test]
    fn a_nap_that_found_little_is_the_last() {
        let mut gather = after(64, 16, 1);
        assert_eq!(gather.nap(None), Some(NAP));
        gather.round(3, 0);
        gather.round(0, 0);
        assert_eq!(gather.nap(None), Some(NAP), "worth it; the empty round after it is no nap's fault");
        gather.round(2, 0);
        assert_eq!(gather.nap(None), None);
    }

    #[test]
    fn a_nap_never_overruns_a_deadline_and_can_be_turned_off() {
        assert_eq!(after(64, 16, 1).nap(Some(NAP / 2)), None);
        assert_eq!(after(64, 16, 1).nap(Some(NAP)), Some(NAP));
        let mut never = Gather::new(Duration::ZERO);
        never.round(WINDOW_FRAMES, 0);
        assert_eq!(never.nap(None), None);
    }
}
