//! When to sleep through arrivals.
//!
//! The kernel wakes a sleeper for every frame, and a wake-up costs many times what the frame does (`tests/cost.rs`). While
//! frames come densely we therefore sleep a fixed time and find several, as a NIC does that moderates its interrupts. A nap that
//! found too little was in the way of somebody who waits for an answer (a ping-pong is dense, too): each such nap doubles the
//! time until the next is tried.

use crate::Instant;
use std::time::Duration;

/// How long arrivals are counted before they are judged.
const INTERVAL: Duration = Duration::from_millis(5);
/// A nap that found fewer frames than this would better have been ended by the first (a timer costs two frames' wake-ups).
const WORTHWHILE_FRAMES: u32 = 2;
/// At most 2 to the power of this many intervals pass between two naps that find nothing: 5 s.
const MAX_DOUBLINGS: u32 = 10;

/// Judges the arrivals of one loop.
pub(super) struct Gather {
    nap: Duration,
    received: u32,
    since: Instant,
    dense: bool,
    napped: bool,
    doublings: u32,
    barred_until: Instant,
}

impl Gather {
    /// Sleeps of length `nap`; never, if that is zero.
    pub(super) fn new(nap: Duration) -> Self {
        Gather {
            nap,
            received: 0,
            since: Instant::START,
            dense: false,
            napped: false,
            doublings: 0,
            barred_until: Instant::START,
        }
    }

    /// Takes note of what one round of the loop received.
    pub(super) fn round(&mut self, now: Instant, received: usize) {
        let received = u32::try_from(received).unwrap_or(u32::MAX);
        self.received = self.received.saturating_add(received);
        if std::mem::take(&mut self.napped) {
            self.learn(now, received);
        }
        let interval = now.since(self.since);
        if interval >= INTERVAL {
            self.dense = self.nap * self.received >= interval * WORTHWHILE_FRAMES;
            (self.received, self.since) = (0, now);
        }
    }

    fn learn(&mut self, now: Instant, received: u32) {
        if received >= WORTHWHILE_FRAMES {
            self.doublings = self.doublings.saturating_sub(1);
        } else {
            self.barred_until = now + INTERVAL * (1 << self.doublings);
            self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
        }
    }

    /// How long to sleep through arrivals now, if at all; the loop must be back within `limit`.
    pub(super) fn nap(&mut self, now: Instant, limit: Option<Duration>) -> Option<Duration> {
        let nap = limit.map_or(self.nap, |limit| limit.min(self.nap));
        let allowed = self.dense && now >= self.barred_until && !nap.is_zero();
        // One cut short by a deadline proves nothing about arrivals.
        self.napped = allowed && nap == self.nap;
        allowed.then_some(nap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAP: Duration = Duration::from_micros(300);

    /// A loop that for 20 ms received `frames` every `gap`, and the moment after.
    fn after(frames: usize, gap: Duration) -> (Gather, Instant) {
        let mut gather = Gather::new(NAP);
        let mut now = Instant::START;
        while now.since(Instant::START) < Duration::from_millis(20) {
            now += gap;
            gather.round(now, frames);
        }
        (gather, now)
    }

    #[test]
    fn only_dense_arrivals_are_slept_through() {
        let (mut bulk, now) = after(1, Duration::from_micros(100));
        assert_eq!(bulk.nap(now, None), Some(NAP));
        let (mut sparse, now) = after(1, Duration::from_micros(400));
        assert_eq!(sparse.nap(now, None), None);
    }

    #[test]
    fn naps_that_find_little_become_ever_rarer_and_one_that_finds_enough_makes_up_for_one() {
        let (mut gather, mut now) = after(1, Duration::from_micros(12));
        let mut naps = 0;
        // A ping-pong of 12 µs a round for a second: no nap finds more than one frame.
        while now.since(Instant::START) < Duration::from_secs(1) {
            let nap = gather.nap(now, None);
            naps += u32::from(nap.is_some());
            now += nap.unwrap_or(Duration::from_micros(12));
            gather.round(now, 1);
        }
        assert!((1..=8).contains(&naps), "{naps} naps in a second");
    }

    #[test]
    fn a_nap_never_overruns_a_deadline_and_can_be_turned_off() {
        let (mut gather, now) = after(10, Duration::from_micros(100));
        assert_eq!(gather.nap(now, Some(NAP / 2)), Some(NAP / 2));
        assert_eq!(gather.nap(now, Some(Duration::ZERO)), None);
        let mut never = Gather::new(Duration::ZERO);
        (1..100).for_each(|round| never.round(Instant::from_nanos(round * 1_000_000), 100));
        assert_eq!(never.nap(Instant::from_nanos(100_000_000), None), None);
    }
}
