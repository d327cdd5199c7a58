//! A repair request, repeated until all bytes have come.

use crate::session::message::{FetchedPiece, MAX_FETCH_BYTES};
use ethbcast_transport::Instant;
use std::ops::Range;
use std::time::Duration;

/// First retransmission timeout of a request. It doubles each time, up to [`MAX_TIMEOUT`].
const FIRST_TIMEOUT: Duration = Duration::from_millis(20);
/// Longest retransmission timeout. It allows a dozen requests in two seconds, enough for 50 % loss.
const MAX_TIMEOUT: Duration = Duration::from_millis(160);

#[derive(Clone, Debug)]
pub(in crate::session) struct Asking {
    first: u64,
    bytes: Vec<u8>,
    lacking: Vec<Range<u64>>,
    asked: Range<u64>,
    again_at: Instant,
    timeout: Duration,
    heard_at: Instant,
    denials: u32,
}

impl Asking {
    pub(in crate::session) fn new(now: Instant, wanted: &Range<u64>) -> Asking {
        let first = wanted.start;
        let end = wanted.end.clamp(first, first.saturating_add(MAX_FETCH_BYTES));
        Asking {
            first,
            bytes: vec![0; (end - first) as usize],
            lacking: Vec::from_iter((first < end).then_some(first..end)),
            asked: first..first,
            again_at: now,
            timeout: FIRST_TIMEOUT,
            heard_at: now,
            denials: 0,
        }
    }

    pub(in crate::session) fn first(&self) -> u64 {
        self.first
    }

    pub(in crate::session) fn range(&self) -> Range<u64> {
        self.first..self.first + self.bytes.len() as u64
    }

    pub(in crate::session) fn denials(&self) -> u32 {
        self.denials
    }

    pub(in crate::session) fn silence(&self, now: Instant) -> Duration {
        now.since(self.heard_at)
    }

    /// Excludes time in which nobody can reply.
    pub(in crate::session) fn pause(&mut self, now: Instant) {
        self.heard_at = now;
    }

    pub(in crate::session) fn poll(&mut self, now: Instant) -> Option<Range<u64>> {
        let lacking = self.lacking.first().filter(|_| self.again_at <= now)?.clone();
        if lacking == self.asked {
            self.timeout = (self.timeout * 2).min(MAX_TIMEOUT);
        }
        self.again_at = now + self.timeout;
        self.asked = lacking.clone();
        Some(lacking)
    }

    pub(in crate::session) fn again_at(&self) -> Option<Instant> {
        (!self.lacking.is_empty()).then_some(self.again_at)
    }

    pub(in crate::session) fn take(&mut self, now: Instant, piece: &FetchedPiece) {
        if piece.is_denial() {
            self.denials += u32::from(self.lacking.first().is_some_and(|lacking| lacking.start == piece.from));
            return;
        }
        let Some(came) = piece.range().filter(|came| self.asked.start <= came.start && came.end <= self.asked.end)
        else {
            return;
        };
        let mut left = Vec::with_capacity(self.lacking.len() + 1);
        let mut new = false;
        for lacking in std::mem::take(&mut self.lacking) {
            let both = lacking.start.max(came.start)..lacking.end.min(came.end);
            if both.is_empty() {
                left.push(lacking);
                continue;
            }
            new = true;
            let here = (both.start - self.first) as usize..(both.end - self.first) as usize;
            let there = (both.start - came.start) as usize..(both.end - came.start) as usize;
            self.bytes[here].copy_from_slice(&piece.bytes[there]);
            left.extend([lacking.start..both.start, both.end..lacking.end].into_iter().filter(|rest| !rest.is_empty()));
        }
        self.lacking = left;
        if new {
            (self.heard_at, self.timeout, self.denials) = (now, FIRST_TIMEOUT, 0);
            // Pieces come in order: after the last one no other is in flight.
            self.again_at = if came.end == self.asked.end { now } else { now + self.timeout };
        }
    }

    pub(in crate::session) fn take_bytes(&mut self) -> Option<Vec<u8>> {
        self.lacking.is_empty().then(|| std::mem::take(&mut self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(bytes: Range<u64>, end: u64) -> FetchedPiece {
        FetchedPiece { from: bytes.start, end, bytes: bytes.map(|at| at as u8).collect() }
    }

    #[test]
    fn what_is_lost_is_asked_for_again_at_once_where_it_shows_and_ever_less_often_where_not() {
        let at = |millis: u64| Instant::START + Duration::from_millis(millis);
        let mut asking = Asking::new(at(0), &(1000..1_000_000));
        assert_eq!(asking.poll(at(0)), Some(1000..1000 + MAX_FETCH_BYTES), "so many at a time");
        let mut asking = Asking::new(at(0), &(1000..2000));
        let asked: Vec<u64> = (0..4000).filter(|&millis| asking.poll(at(millis)).is_some()).collect();
        let evenly = (0..24).map(|time| 300 + 160 * time).filter(|&millis| millis < 4000);
        assert_eq!(asked, [0, 20, 60, 140].into_iter().chain(evenly).collect::<Vec<u64>>(), "milliseconds");
        asking.take(at(4000), &piece(1000..1200, 2000));
        asking.take(at(4000), &piece(1500..2000, 2000));
        assert_eq!(asking.poll(at(4000)), Some(1200..1500), "the last has come: nothing else is on its way");
        assert_eq!((asking.poll(at(4019)), asking.silence(at(4019))), (None, Duration::from_millis(19)));
        asking.take(at(4020), &piece(1600..1700, 2000));
        asking.take(at(4020), &FetchedPiece { bytes: vec![9; 500], ..piece(1200..1201, 2000) });
        assert_eq!(asking.take_bytes(), None, "the one was there, the other is not what it says");
        asking.take(at(4020), &piece(1200..1500, 1500));
        assert_eq!((asking.poll(at(9000)), asking.again_at()), (None, None));
        assert_eq!(asking.take_bytes(), Some((1000..2000).map(|at| at as u8).collect()));
    }

    #[test]
    fn of_what_cannot_be_had_each_word_counts_that_answers_a_question() {
        let mut asking = Asking::new(Instant::START, &(10..20));
        asking.poll(Instant::START);
        [9, 10, 20].into_iter().for_each(|from| asking.take(Instant::START, &FetchedPiece::denial(from)));
        assert_eq!(asking.denials(), 1);
    }

    proptest! {
        #[test]
        fn whatever_comes_in_whatever_order_the_bytes_are_those_that_came(
            pieces in prop::collection::vec((90..220u64, 0..60u64, 90..230u64), 0..60),
        ) {
            let mut asking = Asking::new(Instant::START, &(100..200));
            let mut now = Instant::START;
            for (from, length, end) in pieces {
                now += Duration::from_secs(2);
                let asked = asking.poll(now);
                asking.take(now, &piece(from..from + length, end));
                prop_assert!(asked.is_none_or(|asked| 100 <= asked.start && asked.end <= 200));
            }
            for _ in 0..200 {
                now += Duration::from_secs(2);
                let Some(asked) = asking.poll(now) else { break };
                let end = asked.end;
                asking.take(now, &piece(asked, end));
            }
            prop_assert_eq!(asking.take_bytes(), Some((100..200).map(|at| at as u8).collect()));
        }
    }
}
