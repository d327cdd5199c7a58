//! Busy polling: how long to poll for the next frame before waiting.
//!
//! A waiting loop must be woken: on a busy or virtual machine that takes longer than the frame
//! itself, and half of it is at the sender's expense. So a latency-critical loop polls for a while.
//! Between two polls it yields its CPU (`sched_yield(2)`) instead of pausing: on a host with more
//! processes than CPUs the next frame often comes from a process that has yet to run, and with a
//! CPU to itself a yield returns in a few tenths of a microsecond.
//!
//! If other processes compute, a yield returns after their time slices, and some kernels (Linux
//! 6.18) take the rest of the yielder's slice, too: milliseconds later than a process that sleeps
//! and is woken. A pause between two polls of more than a millisecond, and more than the polling
//! limit, shows that; then the loop sleeps at once for a while, twice as long each time it happens
//! again. Shorter pauses are the turns of other ranks on this host, and the loop polls on: if it
//! slept, each of them would have to wake it (eight ranks on two cores take twice as long then).

use crate::{Instant, TimeSource};
use std::time::Duration;

/// Pause from which a computing process is the cause.
const LATE_WAKE: Duration = Duration::from_millis(1);
/// Time for which the loop sleeps at once after such a pause, and the most doublings of it (1.3 s).
const BARRED: Duration = Duration::from_millis(10);
const MAX_DOUBLINGS: u32 = 7;

#[derive(Debug)]
pub(crate) struct BusyPoll {
    longest: Duration,
    moved_at: Instant,
    barred_until: Instant,
    doublings: u32,
}

impl BusyPoll {
    pub(crate) fn new(longest: Duration) -> Self {
        BusyPoll { longest, moved_at: Instant::START, barred_until: Instant::START, doublings: 0 }
    }

    pub(crate) fn moved(&mut self, now: Instant) {
        self.moved_at = now;
    }

    pub(crate) fn until(&self, now: Instant, limit: Option<Duration>) -> Option<Instant> {
        let end = self.moved_at + self.longest;
        let end = limit.map_or(end, |limit| end.min(now + limit));
        (end > now && now >= self.barred_until).then_some(end)
    }

    pub(crate) fn looked(&mut self, now: Instant, longest_pause: Duration) {
        if longest_pause <= LATE_WAKE.max(self.longest) {
            self.doublings = self.doublings.saturating_sub(1);
        } else {
            self.barred_until = now + BARRED * (1 << self.doublings);
            self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
        }
    }
}

pub(super) fn poll_until(
    end: Instant,
    clock: &impl TimeSource,
    pause: impl Fn(),
    mut ready: impl FnMut() -> bool,
) -> (Instant, Duration) {
    let (mut now, mut longest) = (clock.now(), Duration::ZERO);
    while !ready() && now < end {
        pause();
        let after = clock.now();
        longest = longest.max(after.since(now));
        now = after;
    }
    (now, longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[derive(Default)]
    struct Ticking(Cell<u64>);

    impl TimeSource for Ticking {
        fn now(&self) -> Instant {
            self.0.set(self.0.get() + 1);
            micros(self.0.get())
        }
    }

    const LONGEST: Duration = Duration::from_micros(100);

    fn micros(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn it_lasts_from_the_last_frame_and_not_beyond_a_deadline() {
        let mut busy_poll = BusyPoll::new(LONGEST);
        busy_poll.moved(micros(1000));
        assert_eq!(busy_poll.until(micros(1000), None), Some(micros(1100)));
        assert_eq!(busy_poll.until(micros(1099), None), Some(micros(1100)));
        assert_eq!(busy_poll.until(micros(1100), None), None);
        assert_eq!(busy_poll.until(micros(1050), Some(Duration::from_micros(10))), Some(micros(1060)));
        assert_eq!(busy_poll.until(micros(1050), Some(Duration::from_millis(10))), Some(micros(1100)));
        assert_eq!(busy_poll.until(micros(1050), Some(Duration::ZERO)), None);
        busy_poll.moved(micros(5000));
        assert_eq!(busy_poll.until(micros(5001), None), Some(micros(5100)));
    }

    #[test]
    fn it_can_be_turned_off() {
        let mut busy_poll = BusyPoll::new(Duration::ZERO);
        busy_poll.moved(micros(1000));
        assert_eq!(busy_poll.until(micros(1000), None), None);
    }

    #[test]
    fn where_others_compute_it_sleeps_at_once_for_a_while_and_longer_each_time() {
        let mut busy_poll = BusyPoll::new(LONGEST);
        let polls_at = |busy_poll: &mut BusyPoll, at: u64| {
            busy_poll.moved(micros(at));
            busy_poll.until(micros(at), None).is_some()
        };
        busy_poll.looked(micros(1000), LATE_WAKE);
        assert!(polls_at(&mut busy_poll, 1000), "it came back in time");
        busy_poll.looked(micros(2000), LATE_WAKE * 2);
        assert!(!polls_at(&mut busy_poll, 11_999) && polls_at(&mut busy_poll, 12_000), "10 ms");
        busy_poll.looked(micros(20_000), LATE_WAKE * 2);
        assert!(!polls_at(&mut busy_poll, 39_999) && polls_at(&mut busy_poll, 40_000), "20 ms");
        (0..2).for_each(|_| busy_poll.looked(micros(50_000), LATE_WAKE));
        busy_poll.looked(micros(60_000), LATE_WAKE * 2);
        assert!(polls_at(&mut busy_poll, 70_000), "looks in time are remembered, too");
        (0..100).for_each(|_| busy_poll.looked(micros(100_000), LATE_WAKE * 2));
        assert!(polls_at(&mut busy_poll, 100_000 + 1_280_000), "at most 1.28 s");
    }

    #[test]
    fn looking_ends_with_what_was_looked_for_or_with_the_time() {
        let clock = Ticking::default();
        let mut looks = 0;
        poll_until(
            clock.now() + Duration::from_secs(60),
            &clock,
            || (),
            || {
                looks += 1;
                looks == 5
            },
        );
        assert_eq!(looks, 5);
        let end = clock.now() + Duration::from_millis(2);
        let (ended, longest) = poll_until(
            end,
            &clock,
            || {
                let _now = clock.now();
            },
            || false,
        );
        assert!(ended >= end && longest == Duration::from_micros(2), "{longest:?}");
        poll_until(
            end,
            &clock,
            || (),
            || {
                looks += 1;
                false
            },
        );
        assert_eq!(looks, 6, "it looks once even when it is late");
    }
}
