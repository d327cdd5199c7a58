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

const SLACK_US: i64 = 50_000;
const DRIFT: i64 = 1000;
const READING_LASTS_US: u64 = 10_000_000;

const AGREEING_STAMPS: u8 = 8;
const SURE_LASTS: Duration = Duration::from_secs(1);
const DOUBT_LASTS: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
struct Reading {
    stamp: Stamp,
    at: Instant,
}

impl Reading {
    fn ahead_us(&self, now: Instant, stamp: Stamp) -> i64 {
        let shows = self
            .stamp
            .0
            .wrapping_add(now.since(self.at).as_micros() as u32);
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

/// Clock of a sender, read from its stamps. A stamp may lead it by `SLACK_US`, as it was drawn
/// ahead in a burst or the first one came late, and by the drift between two hosts' clocks, at most
/// 1 / `DRIFT`.
///
/// After `READING_LASTS_US` another stamp sets the clock, even backward, so that drift does not
/// accumulate. A doubtful stamp waits for `DOUBT_LASTS` for one that agrees: twice the longest
/// interval of probes, of which one may be lost.
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
            let doubtful = if ahead {
                &mut self.ahead
            } else {
                &mut self.behind
            };
            let agrees = doubtful
                .replace(reading)
                .is_some_and(|first| first.agrees(now, stamp));
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
            *self = SenderClock {
                newest: Newest::new(stamp, at),
                clock,
                ..SenderClock::default()
            };
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    beyond: Bits,
    head: u64,
    highest: u64,
}

impl Arrived {
    pub(crate) fn new(span: u64) -> Arrived {
        Arrived {
            beyond: Bits::new(span),
            head: 0,
            highest: 0,
        }
    }

    /// Counts all frames below `first` as arrived. `first` must not be below the head, and nothing
    /// beyond the head may have arrived.
    pub(crate) fn skip_to(&mut self, first: u64) {
        assert!(
            self.head == self.highest && self.head <= first,
            "only what is in order can go on elsewhere"
        );
        (self.head, self.highest) = (first, first);
    }

    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    pub(crate) fn has(&self, sequence: u64) -> bool {
        sequence < self.head || (sequence < self.highest && self.beyond.get(sequence))
    }

    /// Records frame `sequence`, which must be new and less than a span beyond the head.
    pub(crate) fn insert(&mut self, sequence: u64) {
        self.beyond.set(sequence);
        self.highest = self.highest.max(sequence + 1);
        while self.head < self.highest && self.beyond.get(self.head) {
            self.beyond.clear(self.head);
            self.head += 1;
        }
    }

    /// Forgets the frames from `end` on, which must be beyond the head.
    pub(crate) fn forget_from(&mut self, end: u64) {
        (end..self.highest).for_each(|sequence| self.beyond.clear(sequence));
        self.highest = self.highest.min(end);
    }

    /// Writes the arrivals beyond the head into `bitmap` (bit `i` is frame `head + 1 + i`); returns
    /// the bytes used.
    pub(crate) fn write_holes(&self, bitmap: &mut [u8]) -> usize {
        let first = self.head + 1 + u64::from(planted!("holes-off-by-one"));
        let used = (self.highest.saturating_sub(first).div_ceil(8) as usize).min(bitmap.len());
        for (at, byte) in bitmap[..used].iter_mut().enumerate() {
            let first = first + at as u64 * 8;
            *byte = (0..8)
                .filter(|bit| self.has(first + bit) || planted!("hole-never-reported"))
                .fold(0, |byte, bit| byte | 1 << bit);
        }
        used
    }

    pub(crate) fn bytes(&self) -> usize {
        self.beyond.bytes()
    }

    pub(crate) fn count(&self) -> (u64, u64) {
        let within = (self.head + 1..self.highest)
            .filter(|&sequence| self.beyond.get(sequence))
            .count();
        (self.beyond.count(), within as u64)
    }
}

pub(crate) fn get(bitmap: &[u8], bit: u64) -> bool {
    bitmap
        .get((bit / 8) as usize)
        .is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
}

#[derive(Clone, Debug)]
pub(crate) struct Bits {
    words: Box<[u64]>,
    mask: u64,
}

impl Bits {
    pub(crate) fn new(slots: u64) -> Bits {
        Bits {
            words: vec![0; slots.div_ceil(64) as usize].into_boxed_slice(),
            mask: slots - 1,
        }
    }

    pub(crate) fn get(&self, sequence: u64) -> bool {
        let slot = sequence & self.mask;
        self.words[(slot / 64) as usize] >> (slot % 64) & 1 == 1
    }

    pub(crate) fn set(&mut self, sequence: u64) {
        let slot = sequence & self.mask;
        self.words[(slot / 64) as usize] |= 1 << (slot % 64);
    }

    pub(crate) fn clear(&mut self, sequence: u64) {
        let slot = sequence & self.mask;
        self.words[(slot / 64) as usize] &= !(1 << (slot % 64));
    }

    /// Returns the lowest marked number in `from..end`, which must not be longer than the ring.
    pub(crate) fn first(&self, from: u64, end: u64) -> Option<u64> {
        let mut at = from;
        while at < end {
            let slot = at & self.mask;
            let rest = self.words[(slot / 64) as usize] >> (slot % 64);
            if rest != 0 {
                let found = at + u64::from(rest.trailing_zeros());
                return (found < end).then_some(found);
            }
            // Continue at the next machine word, or at the beginning of the ring.
            at += (64 - slot % 64).min(self.mask + 1 - slot);
        }
        None
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    pub(crate) fn count(&self) -> u64 {
        self.words
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum()
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
            Pair {
                clock: SenderClock::default(),
                offset,
            }
        }

        fn take(&mut self, ms: u64, sent_ms: u64) -> bool {
            let stamp = Stamp(((sent_ms * 1000) as u32).wrapping_add(self.offset));
            self.clock.take(at(ms), stamp);
            self.clock.newest(at(ms)).0 == stamp
        }

        fn forge(&mut self, ms: u64, ahead: i32) {
            let stamp = Stamp(
                ((ms * 1000) as u32)
                    .wrapping_add(self.offset)
                    .wrapping_add_signed(ahead),
            );
            self.clock.take(at(ms), stamp);
        }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    const OFFSETS: [u32; 5] = [1, 1 << 30, 1 << 31, u32::MAX - 3_000, u32::MAX - 100_000];

    #[test]
    fn one_wrong_stamp_silences_the_true_ones_for_a_moment_only() {
        for ahead in [
            1 << 30,
            -(1 << 30),
            i32::MAX,
            i32::MIN,
            1_000_000,
            -1_000_000,
            100_000,
            40_000,
            -40_000,
            1,
        ] {
            for (offset, first) in OFFSETS
                .into_iter()
                .flat_map(|offset| [(offset, true), (offset, false)])
            {
                let mut pair = Pair::new(offset);
                if !first {
                    assert!((5..=10).all(|ms| pair.take(ms, ms)));
                }
                pair.forge(11, ahead);
                let heard = (12..100)
                    .find(|&ms| pair.take(ms, ms))
                    .expect("a true one is believed");
                assert!(
                    heard <= 13 || ahead == 40_000 && heard <= 52,
                    "{ahead} from {offset}: {heard} ms"
                );
                assert!(
                    (100..200).all(|ms| pair.take(ms, ms)),
                    "{ahead} from {offset}"
                );
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
                assert!(
                    !again && (ms % 200 != 0 || pair.take(ms, ms)),
                    "at {ms} ms from {offset}"
                );
            }
        }
    }

    #[test]
    fn a_clock_that_was_first_shown_by_stamps_of_long_ago_is_found_by_two_true_ones_among_many_of_them()
     {
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
            assert!(
                pair.take(10, 10) && !pair.take(11, 5) && !pair.take(12, 9) && pair.take(13, 13)
            );
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
            let believed = (1..100_000)
                .filter(|&step| pair.take(step * 20, step * 20 * per_mille / 1000))
                .count();
            assert_eq!(believed, 99_999);
        }
    }

    #[test]
    fn holes_are_written_as_they_are_read() {
        for wraps in [0, 60, 1000] {
            let mut arrived = Arrived::new(64);
            (0..wraps).for_each(|sequence| arrived.insert(sequence));
            let present = [2, 3, 9, 17, 30].map(|ahead| wraps + ahead);
            present
                .into_iter()
                .for_each(|sequence| arrived.insert(sequence));
            let mut bitmap = [0xFF; 16];
            assert_eq!(
                (
                    arrived.head(),
                    arrived.highest(),
                    arrived.write_holes(&mut bitmap)
                ),
                (wraps, wraps + 31, 4)
            );
            let read = (0..32)
                .filter(|&bit| get(&bitmap[..4], bit))
                .map(|bit| wraps + 1 + bit);
            assert!(read.eq(present), "{bitmap:?}");
            assert!(!get(&bitmap[..4], 32), "what is not told has not arrived");
            assert_eq!(arrived.write_holes(&mut bitmap[..1]), 1);
            assert_eq!(arrived.count(), (5, 5));
        }
    }

    #[test]
    fn the_first_mark_is_found_in_any_part_of_the_ring_and_around_its_end() {
        for slots in [16, 64, 256] {
            for (begin, mark) in (0..slots * 3)
                .flat_map(|begin| (begin..begin + slots).map(move |mark| (begin, mark)))
            {
                let mut bits = Bits::new(slots);
                bits.set(mark);
                assert_eq!(
                    bits.first(begin, begin + slots),
                    Some(mark),
                    "{slots} slots from {begin}"
                );
                assert_eq!(bits.first(begin, mark), None, "{slots} slots from {begin}");
            }
        }
    }
}
