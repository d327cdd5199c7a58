//! Which frames of one peer have arrived, and when to say so.

use super::settings::SPAN_FRAMES;
use crate::arq::stamp::{STALE, Stamp};
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::AckBody;
use std::time::Duration;

const WORDS: usize = (SPAN_FRAMES / 64) as usize;

/// What is to become of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// To be read, and then [taken](Arrivals::take).
    New,
    /// It has been here.
    Duplicate,
    /// Too far ahead, or out of order where that is not allowed.
    Unwanted,
}

/// The receiving end of one peer's frames.
#[derive(Debug)]
pub(super) struct Arrivals {
    policy: Policy,
    every: u64,
    delay: Duration,
    /// All frames below this have arrived.
    cursor: u64,
    /// One past the newest frame that has arrived.
    highest: u64,
    beyond: [u64; WORDS],
    /// The newest stamp, and when it came.
    newest: Option<(Stamp, Instant)>,
    unacknowledged: u64,
    due: Option<Instant>,
    /// A receipt has fallen due and waits for room to be sent.
    ready: bool,
    gap_reported_at: Option<u64>,
}

impl Arrivals {
    pub(super) fn new(tuning: &Tuning) -> Arrivals {
        Arrivals {
            policy: tuning.policy,
            every: tuning.ack.every_frames,
            delay: tuning.ack.delay,
            cursor: 0,
            highest: 0,
            beyond: [0; WORDS],
            newest: None,
            unacknowledged: 0,
            due: None,
            ready: false,
            gap_reported_at: None,
        }
    }

    /// When a receipt is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Notes the stamp of a frame, whatever becomes of it.
    pub(super) fn note_stamp(&mut self, now: Instant, stamp: Stamp) {
        if self.newest.is_none_or(|(newest, at)| stamp.is_after(newest) || now.since(at) > STALE) {
            self.newest = Some((stamp, now));
        }
    }

    /// What is to become of frame `sequence`.
    pub(super) fn class(&self, sequence: u64) -> Class {
        let unwanted = match self.policy {
            Policy::InOrderOnly => sequence > self.cursor,
            Policy::HolesAllowed => sequence >= self.cursor + SPAN_FRAMES,
        };
        match sequence {
            sequence if sequence < self.cursor || (sequence < self.highest && self.get(sequence)) => Class::Duplicate,
            _ if unwanted => Class::Unwanted,
            _ => Class::New,
        }
    }

    /// A new frame has been read.
    pub(super) fn take(&mut self, now: Instant, sequence: u64) {
        if sequence > self.highest {
            self.report_gap(now, sequence);
        }
        self.highest = self.highest.max(sequence + 1);
        let (word, bit) = place(sequence);
        self.beyond[word] |= bit;
        while self.cursor < self.highest && self.get(self.cursor) {
            let (word, bit) = place(self.cursor);
            self.beyond[word] &= !bit;
            self.cursor += 1;
        }
    }

    /// A frame has come, new or not: it is to be acknowledged soon, or at once if its sender is waiting.
    pub(super) fn owe(&mut self, now: Instant, at_once: bool) {
        self.unacknowledged += 1;
        let delay = if at_once || self.unacknowledged >= self.every { Duration::ZERO } else { self.delay };
        self.hasten(now + delay);
    }

    /// A frame was thrown away: say once that something is missing before it.
    pub(super) fn report_gap(&mut self, now: Instant, at: u64) {
        let at = if self.policy == Policy::InOrderOnly { self.cursor } else { at };
        if self.gap_reported_at != Some(at) {
            self.gap_reported_at = Some(at);
            self.hasten(now);
        }
    }

    /// Asks for a receipt at `at`, if none is due before.
    pub(super) fn hasten(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// What has fallen due is ready, and needs no timer any more.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.ready = true;
        }
    }

    /// Whether a receipt is to be sent now.
    pub(super) fn is_ready(&mut self, now: Instant) -> bool {
        self.on_timeout(now);
        self.ready
    }

    /// Writes the body of an acknowledgement, with which nothing is owed any more; returns its length, the cursor and the echo.
    pub(super) fn acknowledge(&mut self, now: Instant, body: &mut [u8]) -> (usize, u64, Stamp) {
        self.due = None;
        self.ready = false;
        self.unacknowledged = 0;
        let (echo, arrived) = self.newest.unwrap_or((Stamp::NONE, now));
        let cursor = self.cursor;
        let held_us = u32::try_from(now.since(arrived).as_micros()).unwrap_or(u32::MAX);
        let fixed = AckBody { limit: cursor + SPAN_FRAMES, below: cursor, passed: cursor, held_us };
        let bitmap_bytes = self.write_holes(&mut body[AckBody::BYTES..]);
        (fixed.write(cursor, body, bitmap_bytes), cursor, echo)
    }

    fn write_holes(&self, bitmap: &mut [u8]) -> usize {
        let first = self.cursor + 1;
        let used = (self.highest.saturating_sub(first).div_ceil(8) as usize).min(bitmap.len());
        bitmap[..used].fill(0);
        let end = self.highest.min(first + used as u64 * 8);
        for sequence in (first..end).filter(|&sequence| self.get(sequence)) {
            let bit = sequence - first;
            bitmap[(bit / 8) as usize] |= 1 << (bit % 8);
        }
        used
    }

    fn get(&self, sequence: u64) -> bool {
        let (word, bit) = place(sequence);
        self.beyond[word] & bit != 0
    }
}

fn place(sequence: u64) -> (usize, u64) {
    let slot = sequence % SPAN_FRAMES;
    ((slot / 64) as usize, 1 << (slot % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_in_which_seven_frames_arrive_ends_with_all_of_them_and_takes_each_once() {
        let mut order = [0_u64; 7];
        for mut number in 0..5040_usize {
            let mut left: Vec<u64> = (0..7).collect();
            for (at, slot) in order.iter_mut().enumerate() {
                *slot = left.remove(number % (7 - at));
                number /= 7 - at;
            }
            let mut arrivals = Arrivals::new(&Tuning::default());
            for (at, &sequence) in order.iter().enumerate() {
                assert_eq!(arrivals.class(sequence), Class::New, "{order:?}");
                arrivals.take(Instant::START, sequence);
                assert_eq!(arrivals.class(sequence), Class::Duplicate, "{order:?}");
                let missing = (0..7).find(|sequence| !order[..=at].contains(sequence)).unwrap_or(7);
                assert_eq!(arrivals.cursor, missing, "{order:?}");
            }
            assert!(arrivals.beyond.iter().all(|&word| word == 0), "{order:?}");
        }
    }

    #[test]
    fn nothing_is_taken_too_far_ahead_nor_out_of_order_where_that_is_strict() {
        let holes = Arrivals::new(&Tuning::default());
        assert_eq!([0, SPAN_FRAMES - 1, SPAN_FRAMES].map(|at| holes.class(at)), [Class::New, Class::New, Class::Unwanted]);
        let strict = Arrivals::new(&Tuning::paper());
        assert_eq!([0, 1].map(|at| strict.class(at)), [Class::New, Class::Unwanted]);
    }
}
