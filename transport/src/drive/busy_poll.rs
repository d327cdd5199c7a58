//! How long to look for the next frame before waiting.
//!
//! Who waits must be woken: on a busy or virtual machine that takes longer than the frame itself, and its sender pays
//! half of it. So a loop that somebody waits for goes on looking for a while. Between two looks it gives its CPU away
//! (`sched_yield(2)`) instead of pausing: on a host with more processes than CPUs the frame it looks for often comes
//! from one that has yet to run, and with a CPU to itself a yield returns in a few tenths of a microsecond.

use crate::{Instant, TimeSource};
use std::time::Duration;

/// The busy polling of one loop.
#[derive(Debug)]
pub(crate) struct BusyPoll {
    longest: Duration,
    /// When a frame last came or left.
    moved_at: Instant,
}

impl BusyPoll {
    /// For up to `longest` after a frame has come or left; not at all, if that is zero.
    pub(crate) fn new(longest: Duration) -> Self {
        BusyPoll { longest, moved_at: Instant::START }
    }

    /// A frame has come or left.
    pub(crate) fn moved(&mut self, now: Instant) {
        self.moved_at = now;
    }

    /// Until when to look, if it is worth while at all; the loop must be back within `limit`.
    pub(crate) fn until(&self, now: Instant, limit: Option<Duration>) -> Option<Instant> {
        let end = self.moved_at + self.longest;
        let end = limit.map_or(end, |limit| end.min(now + limit));
        (end > now).then_some(end)
    }
}

/// Looks until `ready` or `end`, with a `pause` between two looks.
pub(super) fn poll_until(end: Instant, clock: &impl TimeSource, pause: impl Fn(), mut ready: impl FnMut() -> bool) {
    while !ready() && clock.now() < end {
        pause();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A microsecond passes between two looks.
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
        poll_until(end, &clock, || (), || false);
        assert!(clock.now() >= end);
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
