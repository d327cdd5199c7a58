//! Frames received from one peer, and the acknowledgements owed for them.

use super::settings::SPAN_FRAMES;
use crate::arq::arrived::Arrived;
use crate::arq::receipt::Receipt;
use crate::arq::stamp::Stamp;
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::AckBody;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    New,
    Duplicate,
    Unwanted,
}

#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    policy: Policy,
    every: u64,
    delay: Duration,
    arrived: Arrived,
    receipt: Receipt,
}

impl Arrivals {
    pub(super) fn new(tuning: &Tuning) -> Arrivals {
        Arrivals {
            policy: tuning.policy,
            every: tuning.ack.every_frames,
            delay: tuning.ack.delay,
            arrived: Arrived::new(SPAN_FRAMES),
            receipt: Receipt::default(),
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.receipt.due()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.arrived.bytes()
    }

    pub(super) fn note_stamp(&mut self, now: Instant, stamp: u32) {
        self.receipt.note_stamp(now, stamp);
    }

    pub(super) fn class(&self, sequence: u64) -> Class {
        let head = self.arrived.head();
        let unwanted = match self.policy {
            Policy::InOrderOnly => sequence > head,
            Policy::HolesAllowed => sequence >= head + SPAN_FRAMES,
        };
        match sequence {
            sequence if self.arrived.has(sequence) => Class::Duplicate,
            _ if unwanted => Class::Unwanted,
            _ => Class::New,
        }
    }

    pub(super) fn take(&mut self, now: Instant, sequence: u64) {
        if sequence > self.arrived.highest() {
            self.report_gap(now, sequence);
        }
        self.arrived.insert(sequence);
    }

    pub(super) fn owe(&mut self, now: Instant, at_once: bool) {
        let unacknowledged = self.receipt.count();
        let delay = if at_once || unacknowledged >= self.every { Duration::ZERO } else { self.delay };
        self.receipt.hasten(now + delay);
    }

    pub(super) fn report_gap(&mut self, now: Instant, at: u64) {
        let at = if self.policy == Policy::InOrderOnly { self.arrived.head() } else { at };
        if self.receipt.is_new_gap(at) {
            self.receipt.hasten(now);
        }
    }

    pub(super) fn on_request(&mut self, now: Instant, stamp: u32) {
        self.receipt.note_stamp(now, stamp);
        self.receipt.hasten(now);
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        self.receipt.on_timeout(now);
    }

    pub(super) fn is_ready(&mut self, now: Instant) -> bool {
        self.receipt.on_timeout(now);
        self.receipt.is_ready()
    }

    pub(super) fn acknowledge(&mut self, now: Instant, body: &mut [u8]) -> (usize, u64, Stamp) {
        let (echo, held_us) = self.receipt.settle(now);
        let cursor = self.arrived.head();
        let fixed = AckBody { limit: cursor + SPAN_FRAMES, below: cursor, consumed: cursor, held_us };
        let bitmap_bytes = self.arrived.write_holes(&mut body[AckBody::BYTES..]);
        (fixed.write(cursor, body, bitmap_bytes), cursor, echo)
    }
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
                assert_eq!(arrivals.arrived.head(), missing, "{order:?}");
            }
            assert_eq!(arrivals.arrived.count(), (0, 0), "{order:?}");
        }
    }

    #[test]
    fn no_frame_is_accepted_too_far_ahead_or_out_of_order_under_strict_presets() {
        let holes = Arrivals::new(&Tuning::default());
        assert_eq!(
            [0, SPAN_FRAMES - 1, SPAN_FRAMES].map(|at| holes.class(at)),
            [Class::New, Class::New, Class::Unwanted]
        );
        let strict = Arrivals::new(&Tuning::paper());
        assert_eq!([0, 1].map(|at| strict.class(at)), [Class::New, Class::Unwanted]);
    }
}
