//! How long to look for the next frame before waiting.
//!
//! Who waits must be woken: on a busy or virtual machine that takes longer than the frame itself, and its sender pays
//! half of it. So a loop that somebody waits for goes on looking for a while. Between two looks it gives its CPU away
//! (`sched_yield(2)`) instead of pausing: on a host with more processes than CPUs the frame it looks for often comes
//! from one that has yet to run, and with a CPU to itself a yield returns in a few tenths of a microsecond.
//!
//! Where others compute, a yield returns when they have had their share, and some kernels (Linux 6.18) take the rest of
//! the yielder's share, too: milliseconds later than a process that sleeps and is woken. A pause between two looks of
//! more than a millisecond, and more than all looking was to take, says so; then the loop sleeps at once for a while,
//! each time it happens again for twice as long. Shorter pauses are those in which the others of a group had their
//! turns, for which the loop looks on: whoever sleeps instead has to be woken by each of them (eight ranks on two cores
//! take twice as long then).

use crate::{Instant, TimeSource};
use std::time::Duration;

/// A pause that is longer is somebody's who computes.
const LATE: Duration = Duration::from_millis(1);
/// How long a loop sleeps at once whose pauses have taken too long, and how often that doubles at most (1.3 s).
const BARRED: Duration = Duration::from_millis(10);
const MAX_DOUBLINGS: u32 = 7;

/// The busy polling of one loop.
#[derive(Debug)]
pub(crate) struct BusyPoll {
    longest: Duration,
    /// When a frame last came or left.
    moved_at: Instant,
    barred_until: Instant,
    doublings: u32,
}

impl BusyPoll {
    /// For up to `longest` after a frame has come or left; not at all, if that is zero.
    pub(crate) fn new(longest: Duration) -> Self {
        BusyPoll { longest, moved_at: Instant::START, barred_until: Instant::START, doublings: 0 }
    }

    /// A frame has come or left.
    pub(crate) fn moved(&mut self, now: Instant) {
        self.moved_at = now;
    }

    /// Until when to look, if it is worth while at all; the loop must be back within `limit`.
    pub(crate) fn until(&self, now: Instant, limit: Option<Duration>) -> Option<Instant> {
        let end = self.moved_at + self.longest;
        let end = limit.map_or(end, |limit| end.min(now + limit));
        (end > now && now >= self.barred_until).then_some(end)
    }

    /// It has looked, and of the pauses in between the longest took so long.
    pub(crate) fn looked(&mut self, now: Instant, longest_pause: Duration) {
        if longest_pause <= LATE.max(self.longest) {
            self.doublings = self.doublings.saturating_sub(1);
        } else {
            self.barred_until = now + BARRED * (1 << self.doublings);
            self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
        }
    }
}

/// Looks until `ready` or `end`, with a `pause` between two looks; when it ended, and how long the longest pause was.
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
    fn where_others_compute_it_sleeps_at_once_for_a_while_and_longer_each_time() {
        let mut busy_poll = BusyPoll::new(LONGEST);
        let polls_at = |busy_poll: &mut BusyPoll, at: u64| {
            busy_poll.moved(micros(at));
            busy_poll.until(micros(at), None).is_some()
        };
        busy_poll.looked(micros(1000), LATE);
        assert!(polls_at(&mut busy_poll, 1000), "it came back in time");
        busy_poll.looked(micros(2000), LATE * 2);
        assert!(!polls_at(&mut busy_poll, 11_999) && polls_at(&mut busy_poll, 12_000), "10 ms");
        busy_poll.looked(micros(20_000), LATE * 2);
        assert!(!polls_at(&mut busy_poll, 39_999) && polls_at(&mut busy_poll, 40_000), "20 ms");
        (0..2).for_each(|_| busy_poll.looked(micros(50_000), LATE));
        busy_poll.looked(micros(60_000), LATE * 2);
        assert!(polls_at(&mut busy_poll, 70_000), "looks in time are remembered, too");
        (0..100).for_each(|_| busy_poll.looked(micros(100_000), LATE * 2));
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
