//! Waiting of the event loop for the next frame: busy polling first, then sleep and receive
//! coalescing.
//!
//! **Busy polling** delays the sleep. A sleeping loop must be woken. On a busy or virtual machine that takes longer
//! than the frame itself, and half of the work falls on the sender. So a latency-critical loop polls for a while.
//! Between two polls it yields its CPU (`sched_yield(2)`) instead of pausing: on a host with more processes than CPUs
//! the next frame often comes from a process that has yet to run, and with a CPU to itself a yield returns in a few
//! tenths of a microsecond.
//!
//! Beside processes that compute, a yield returns only after their time slices. Some kernels (Linux 6.18) also
//! take the rest of the yielder's slice. The loop then continues milliseconds later than a process that sleeps and
//! is woken. It detects this by a pause between two polls of more than a millisecond and more than the polling
//! limit. For a while after such a pause it sleeps at once, twice as long each time it happens again. Shorter
//! pauses are the turns of other ranks on this host, and the loop polls on. If it slept, each of them would have to
//! wake it (eight ranks on two cores take twice as long then).
//!
//! **Receive coalescing** sleeps through arrivals. The kernel wakes a sleeper for every frame, and a wake-up costs
//! many times what the frame does. While frames arrive densely the loop therefore sleeps a fixed time (a *nap*) and
//! finds several, like a NIC that moderates its interrupts. A nap that found too few frames delayed a reply, because
//! a ping-pong is dense, too. Each such nap doubles the time until the next is tried. If bulk arrives several frames
//! at a time, or hardly anything is sent in return, no peer waits for a reply to each frame. A nap that found nothing
//! then met a sender without a CPU for a moment, or the end of an exchange, and is ignored.

use crate::{Instant, TimeSource};
use std::time::Duration;

/// Pause that shows a computing process.
const LATE_WAKE: Duration = Duration::from_millis(1);
/// Time for which the loop sleeps at once after such a pause.
const BARRED: Duration = Duration::from_millis(10);
/// Most doublings of that time (1.3 s).
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

const INTERVAL: Duration = Duration::from_millis(5);
/// Frames that make a nap worthwhile (a timer costs two frames' wake-ups).
const WORTHWHILE_FRAMES: u32 = 2;
const BULK_FRAMES_PER_SECOND: u32 = 20_000;
const BULK_FRAMES: u32 = 64;
/// Received frames per sent frame from which traffic counts as one-sided: no sender waits for
/// replies. (A barrier's leaf sends one for two, a stream's receiver one for dozens.)
const ONE_SIDED_FRAMES: u32 = 8;
/// Divisor of the longest nap at lower rates: few wake-ups are saved, and round trips matter.
const SHORT_PART: u32 = 4;
/// Most doublings of the interval between two naps that find nothing: 5 s.
const MAX_NAP_DOUBLINGS: u32 = 10;

#[derive(Debug, Default)]
pub(crate) struct Coalescing {
    longest: Duration,
    nap: Duration,
    received: u32,
    rounds: u32,
    sent: u32,
    since: Instant,
    dense: bool,
    napped: bool,
    doublings: u32,
    barred_until: Instant,
}

impl Coalescing {
    pub(crate) fn new(longest: Duration) -> Self {
        Coalescing { longest, nap: longest / SHORT_PART, ..Coalescing::default() }
    }

    pub(crate) fn round(&mut self, now: Instant, received: usize, sent: usize) {
        let [received, sent] = [received, sent].map(|frames| u32::try_from(frames).unwrap_or(u32::MAX));
        self.received = self.received.saturating_add(received);
        self.sent = self.sent.saturating_add(sent);
        self.rounds += u32::from(received > 0);
        if std::mem::take(&mut self.napped) {
            self.learn(now, received);
        }
        let interval = now.since(self.since);
        if interval >= INTERVAL {
            self.nap = self.fitting_nap(interval);
            self.dense = self.nap * self.received >= interval * WORTHWHILE_FRAMES;
            let several_at_a_time = self.received >= self.rounds.saturating_mul(WORTHWHILE_FRAMES);
            let one_sided = self.received >= self.sent.saturating_mul(ONE_SIDED_FRAMES);
            if self.is_bulk(interval) && (several_at_a_time || one_sided) {
                (self.doublings, self.barred_until) = (0, now);
            }
            (self.received, self.rounds, self.sent, self.since) = (0, 0, 0, now);
        }
    }

    fn is_bulk(&self, interval: Duration) -> bool {
        interval * BULK_FRAMES_PER_SECOND <= Duration::from_secs(1) * self.received
    }

    fn fitting_nap(&self, interval: Duration) -> Duration {
        let shortest = self.longest / SHORT_PART;
        if self.is_bulk(interval) {
            (interval * BULK_FRAMES / self.received.max(1)).clamp(shortest, self.longest)
        } else {
            shortest
        }
    }

    fn learn(&mut self, now: Instant, received: u32) {
        if received >= WORTHWHILE_FRAMES {
            self.doublings = self.doublings.saturating_sub(1);
        } else {
            self.barred_until = now + INTERVAL * (1 << self.doublings);
            self.doublings = (self.doublings + 1).min(MAX_NAP_DOUBLINGS);
        }
    }

    pub(crate) fn nap(&mut self, now: Instant, limit: Option<Duration>) -> Option<Duration> {
        let nap = limit.map_or(self.nap, |limit| limit.min(self.nap));
        let allowed = self.dense && now >= self.barred_until && !nap.is_zero();
        // A nap cut short by a deadline proves nothing about arrivals.
        self.napped = allowed && nap == self.nap;
        allowed.then_some(nap)
    }
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
    fn busy_polling_lasts_from_the_last_frame_and_not_beyond_a_deadline() {
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
    fn busy_polling_can_be_turned_off() {
        let mut busy_poll = BusyPoll::new(Duration::ZERO);
        busy_poll.moved(micros(1000));
        assert_eq!(busy_poll.until(micros(1000), None), None);
    }

    #[test]
    fn where_others_compute_busy_polling_stops_for_a_while_and_longer_each_time() {
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

    const LONGEST_NAP: Duration = Duration::from_millis(1);

    fn after(received: usize, sent: usize, gap: Duration) -> (Coalescing, Instant) {
        let mut coalescing = Coalescing::new(LONGEST_NAP);
        let mut now = Instant::START;
        while now.since(Instant::START) < Duration::from_millis(20) {
            now += gap;
            coalescing.round(now, received, sent);
        }
        (coalescing, now)
    }

    #[test]
    fn the_denser_the_arrivals_the_more_a_nap_takes_in_up_to_a_bound() {
        let nap = |frames, gap_micros| {
            let (mut coalescing, now) = after(frames, 0, Duration::from_micros(gap_micros));
            coalescing.nap(now, None)
        };
        assert_eq!(nap(1, 400), None, "2 500 frames/s: each is waited for");
        assert_eq!(nap(1, 120), Some(LONGEST_NAP / 4), "100 Mbit/s");
        assert_eq!(nap(1, 25), Some(LONGEST_NAP), "40 000 frames/s");
        assert_eq!(nap(10, 10), Some(LONGEST_NAP / 4), "a million frames/s");
    }

    #[test]
    fn naps_that_find_little_become_ever_rarer() {
        let (mut coalescing, mut now) = after(1, 1, Duration::from_micros(12));
        let mut naps = 0;
        // A ping-pong of 12 µs a round for a second: no nap finds more than one frame.
        while now.since(Instant::START) < Duration::from_secs(1) {
            let nap = coalescing.nap(now, None);
            naps += u32::from(nap.is_some());
            now += nap.unwrap_or(Duration::from_micros(12));
            coalescing.round(now, 1, 1);
        }
        assert!((1..=8).contains(&naps), "{naps} naps in a second");
    }

    fn barred(round_micros: u64, received: usize, sent: usize) -> Duration {
        let round = Duration::from_micros(round_micros);
        let (mut coalescing, begin) = after(received, sent, round);
        // The sender repeatedly had no CPU for a moment: the next nap is seconds away.
        coalescing.doublings = MAX_NAP_DOUBLINGS;
        coalescing.learn(begin, 0);
        let mut now = begin;
        while coalescing.nap(now, None).is_none() && now.since(begin) < Duration::from_secs(1) {
            now += round;
            coalescing.round(now, received, sent);
        }
        now.since(begin)
    }

    #[test]
    fn where_nobody_waits_for_replies_an_empty_nap_is_soon_forgotten() {
        let soon = INTERVAL * 2;
        assert!(barred(100, 8, 8) <= soon, "a relay, whose frames come several at a time");
        assert!(barred(4, 1, 0) <= soon, "a receiver that is quick enough to take each by itself");
        assert!(barred(12, 1, 1) > soon, "a ping-pong");
        assert!(barred(500, 8, 0) > soon, "no bulk");
    }

    #[test]
    fn a_nap_never_overruns_a_deadline_and_can_be_turned_off() {
        let (mut coalescing, now) = after(10, 0, Duration::from_micros(100));
        let short = Duration::from_micros(10);
        assert_eq!(coalescing.nap(now, Some(short)), Some(short));
        assert_eq!(coalescing.nap(now, Some(Duration::ZERO)), None);
        let mut never = Coalescing::new(Duration::ZERO);
        (1..100).for_each(|round| never.round(Instant::from_nanos(round * 1_000_000), 100, 0));
        assert_eq!(never.nap(Instant::from_nanos(100_000_000), None), None);
    }
}
