//! The acknowledgement that a receiver owes: when it is due, and which timestamp it echoes.
//!
//! Timestamps are microseconds of the sender's clock, so the one that arrived with the least delay
//! shows how far that clock can be now: any delay only makes a timestamp look old. A timestamp
//! beyond that, or well before the newest, is in doubt until the next one agrees with it. One frame
//! with a wrong timestamp, even the first, thus hides the true ones only for a moment. A clock that
//! many timestamps have confirmed is not set back while others confirm it: replayed frames of long
//! ago agree with each other, too.

use super::echo::Newest;
use super::stamp::Stamp;
use crate::time::Instant;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub(crate) struct Receipt {
    stamps: SenderClock,
    unacknowledged: u64,
    due: Option<Instant>,
    ready: bool,
    gap_reported_at: Option<u64>,
}

impl Receipt {
    pub(crate) fn note_stamp(&mut self, now: Instant, stamp: u32) {
        self.stamps.take(now, Stamp(stamp));
    }

    pub(crate) fn forget_stamps(&mut self) {
        self.stamps = SenderClock::default();
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn count(&mut self) -> u64 {
        self.unacknowledged += 1;
        self.unacknowledged
    }

    pub(crate) fn is_new_gap(&mut self, at: u64) -> bool {
        self.gap_reported_at.replace(at) != Some(at)
    }

    pub(crate) fn hasten(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    pub(crate) fn make_ready(&mut self) -> bool {
        !std::mem::replace(&mut self.ready, true)
    }

    pub(crate) fn on_timeout(&mut self, now: Instant) {
        if self.due.take_if(|due| *due <= now).is_some() {
            self.ready = true;
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready
    }

    pub(crate) fn settle(&mut self, now: Instant) -> (Stamp, u32) {
        (self.unacknowledged, self.due, self.ready) = (0, None, false);
        self.stamps.newest(now)
    }
}

/// Lead over the known clock that a stamp may have, in µs: drawn ahead in a burst, or the first one
/// came late.
const SLACK_US: i64 = 50_000;
/// Inverse of the largest drift between the clocks of two hosts.
const DRIFT: i64 = 1000;
/// Time in µs after which another stamp sets the clock, even backward, so that drift does not
/// accumulate.
const READING_LASTS_US: u64 = 10_000_000;

const AGREEING_STAMPS: u8 = 8;
const SURE_LASTS: Duration = Duration::from_secs(1);
/// Time for which a doubtful stamp waits for one that agrees: twice the longest interval of probes,
/// of which one may be lost.
const DOUBT_LASTS: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
struct Reading {
    stamp: Stamp,
    at: Instant,
}

impl Reading {
    fn ahead_us(&self, now: Instant, stamp: Stamp) -> i64 {
        let shows = self.stamp.0.wrapping_add(now.since(self.at).as_micros() as u32);
        i64::from(stamp.0.wrapping_sub(shows) as i32)
    }

    fn slack_us(&self, now: Instant) -> i64 {
        SLACK_US + now.since(self.at).as_micros() as i64 / DRIFT
    }

    fn admits(&self, now: Instant, stamp: Stamp) -> bool {
        self.ahead_us(now, stamp) <= self.slack_us(now)
    }

    fn agrees(&self, now: Instant, stamp: Stamp) -> bool {
        now.since(self.at) <= DOUBT_LASTS && stamp.is_after(self.stamp) && self.admits(now, stamp)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderClock {
    newest: Newest,
    clock: Option<Reading>,
    fitting: u8,
    ahead: Option<Reading>,
    behind: Option<Reading>,
}

impl SenderClock {
    pub(crate) fn newest(&self, now: Instant) -> (Stamp, u32) {
        (self.newest.stamp, self.newest.held_us(now))
    }

    pub(crate) fn take(&mut self, now: Instant, stamp: Stamp) {
        let reading = Reading { stamp, at: now };
        let Some(clock) = self.clock.filter(|_| !self.newest.is_stale(now)) else {
            return self.believe(reading);
        };
        if stamp == Stamp::NONE {
            return;
        }
        if stamp.is_after(self.newest.stamp) && clock.admits(now, stamp) {
            self.newest = Newest::new(stamp, now);
            self.fitting = (self.fitting + 1).min(AGREEING_STAMPS);
            self.behind = None;
            let outdated = now.since(clock.at).as_micros() as u64 > READING_LASTS_US;
            if outdated || clock.ahead_us(now, stamp) > 0 {
                self.clock = Some(reading);
            }
        } else if !self.is_late(stamp) {
            let (ahead, sure) = (!clock.admits(now, stamp), self.is_sure(now));
            let doubtful = if ahead { &mut self.ahead } else { &mut self.behind };
            let agrees = doubtful.replace(reading).is_some_and(|first| first.agrees(now, stamp));
            if agrees && (ahead || !sure) {
                self.believe(reading);
            }
        }
    }

    fn is_sure(&self, now: Instant) -> bool {
        self.fitting >= AGREEING_STAMPS && now.since(self.newest.at()) < SURE_LASTS
    }

    fn is_late(&self, stamp: Stamp) -> bool {
        let newest = self.newest.stamp;
        !stamp.is_after(newest) && newest.since(stamp).as_micros() as i64 <= SLACK_US
    }

    fn believe(&mut self, Reading { stamp, at }: Reading) {
        if stamp != Stamp::NONE {
            let clock = Some(Reading { stamp, at });
            *self = SenderClock { newest: Newest::new(stamp, at), clock, ..SenderClock::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_owed_acknowledgement_is_due_at_the_earliest_request_and_settled_at_once() {
        let at = |ms| Instant::START + Duration::from_millis(ms);
        let mut receipt = Receipt::default();
        receipt.note_stamp(at(1), 50);
        receipt.note_stamp(at(2), 40);
        assert_eq!((receipt.count(), receipt.count()), (1, 2));
        receipt.hasten(at(7));
        receipt.hasten(at(5));
        receipt.hasten(at(6));
        receipt.on_timeout(at(4));
        assert!(!receipt.is_ready() && receipt.due() == Some(at(5)));
        receipt.on_timeout(at(5));
        assert!(receipt.is_ready() && receipt.due().is_none());
        assert_eq!(receipt.settle(at(6)), (Stamp(50), 5000));
        assert!(!receipt.is_ready() && receipt.count() == 1);
        assert!(receipt.is_new_gap(3) && !receipt.is_new_gap(3) && receipt.is_new_gap(4));
        receipt.forget_stamps();
        assert_eq!(receipt.settle(at(9)), (Stamp::NONE, 0));
    }

    struct Pair {
        clock: SenderClock,
        offset: u32,
    }

    impl Pair {
        fn new(offset: u32) -> Pair {
            Pair { clock: SenderClock::default(), offset }
        }

        fn take(&mut self, ms: u64, sent_ms: u64) -> bool {
            let stamp = Stamp(((sent_ms * 1000) as u32).wrapping_add(self.offset));
            self.clock.take(at(ms), stamp);
            self.clock.newest(at(ms)).0 == stamp
        }

        fn forge(&mut self, ms: u64, ahead: i32) {
            let stamp = Stamp(((ms * 1000) as u32).wrapping_add(self.offset).wrapping_add_signed(ahead));
            self.clock.take(at(ms), stamp);
        }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    const OFFSETS: [u32; 5] = [1, 1 << 30, 1 << 31, u32::MAX - 3_000, u32::MAX - 100_000];

    #[test]
    fn one_wrong_stamp_silences_the_true_ones_for_a_moment_only() {
        for ahead in [1 << 30, -(1 << 30), i32::MAX, i32::MIN, 1_000_000, -1_000_000, 100_000, 40_000, -40_000, 1] {
            for (offset, first) in OFFSETS.into_iter().flat_map(|offset| [(offset, true), (offset, false)]) {
                let mut pair = Pair::new(offset);
                if !first {
                    assert!((5..=10).all(|ms| pair.take(ms, ms)));
                }
                pair.forge(11, ahead);
                let heard = (12..100).find(|&ms| pair.take(ms, ms)).expect("a true one is believed");
                assert!(heard <= 13 || ahead == 40_000 && heard <= 52, "{ahead} from {offset}: {heard} ms");
                assert!((100..200).all(|ms| pair.take(ms, ms)), "{ahead} from {offset}");
            }
        }
    }

    #[test]
    fn stamps_of_long_ago_that_agree_do_not_set_a_clock_back_that_is_shown_by_others() {
        for offset in OFFSETS {
            let mut pair = Pair::new(offset);
            assert!((1000..=1010).all(|ms| pair.take(ms, ms)));
            for ms in 1011..3000 {
                // Another host replays, in order, frames it has recorded; every 200 ms the sender
                // probes.
                let again = pair.take(ms, ms - 900);
                assert!(!again && (ms % 200 != 0 || pair.take(ms, ms)), "at {ms} ms from {offset}");
            }
        }
    }

    #[test]
    fn a_clock_that_was_first_shown_by_stamps_of_long_ago_is_found_by_two_true_ones_among_many_of_them() {
        for offset in OFFSETS {
            let mut pair = Pair::new(offset);
            assert!((1000..1100).all(|ms| pair.take(ms, ms - 900)));
            let mut heard = (1100..2000).filter(|&ms| {
                pair.take(ms, ms - 900);
                ms % 200 == 0 && pair.take(ms, ms)
            });
            assert_eq!(heard.next(), Some(1400), "from {offset}");
        }
    }

    #[test]
    fn two_wrong_stamps_that_do_not_agree_are_two_single_ones() {
        let mut pair = Pair::new(7);
        assert!((5..=10).all(|ms| pair.take(ms, ms)));
        pair.forge(11, 1 << 30);
        pair.forge(11, 1 << 30);
        pair.forge(11, 1 << 29);
        assert!(pair.take(12, 12), "the same twice is once");
    }

    #[test]
    fn the_same_wrong_stamp_twice_is_once() {
        let mut pair = Pair::new(7);
        assert!((5..=10).all(|ms| pair.take(ms, ms)));
        (0..2).for_each(|_| pair.clock.take(at(11), Stamp(1 << 30)));
        assert!(pair.take(12, 12), "a clock would have gone on by then");
    }

    #[test]
    fn a_receiver_that_was_away_takes_what_has_waited_for_it() {
        for offset in OFFSETS {
            let mut pair = Pair::new(offset);
            assert!((1..=10).all(|ms| pair.take(ms, ms)));
            // The receiver's ring was full after two seconds; then recent frames arrive.
            assert!((11..=2000).all(|sent| pair.take(5000, sent)));
            assert!((5001..5100).all(|ms| pair.take(ms, ms)));
        }
    }

    #[test]
    fn a_first_stamp_that_came_late_costs_the_next_one_at_most() {
        let mut pair = Pair::new(9);
        assert!(pair.take(700, 1));
        assert!(!pair.take(701, 701) && pair.take(702, 702) && pair.take(703, 703));
    }

    #[test]
    fn an_overtaken_stamp_is_no_news_and_any_is_after_a_long_silence() {
        for offset in OFFSETS {
            let mut pair = Pair::new(offset);
            assert!(pair.take(10, 10) && !pair.take(11, 5) && !pair.take(12, 9) && pair.take(13, 13));
            // Stamps keep up with the clock through hours, however often they wrap.
            for minutes in [5_u64, 9, 20, 100] {
                let ms = pair.clock.newest.at().as_micros() / 1000 + minutes * 60_000;
                assert!(pair.take(ms, ms), "after {minutes} minutes from {offset}");
            }
        }
    }

    #[test]
    fn clocks_that_run_apart_are_followed() {
        for per_mille in [999_u64, 1001] {
            let mut pair = Pair::new(3);
            let believed = (1..100_000).filter(|&step| pair.take(step * 20, step * 20 * per_mille / 1000)).count();
            assert_eq!(believed, 99_999);
        }
    }
}
