//! Transmission timestamps in microseconds, strictly increasing, which receivers echo (as RFC 7323
//! §3).
//!
//! Each transmission of a sender, first or repeated, carries its own timestamp. An echo therefore
//! gives an unambiguous round trip, and proves that every frame with an older timestamp was
//! overtaken.

use crate::time::Instant;
use std::time::Duration;

/// Time of a transmission by the sender's clock, in microseconds; zero stands for "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(pub u32);

impl Stamp {
    pub const NONE: Stamp = Stamp(0);

    pub fn of(now: Instant) -> Stamp {
        Stamp(now.as_micros() as u32)
    }

    /// Returns the time since the stamp was drawn; zero if it is ahead of the clock, as the stamps
    /// of a burst are.
    pub fn age(self, now: Instant) -> Duration {
        let clock = Stamp::of(now);
        if self.is_after(clock) {
            Duration::ZERO
        } else {
            clock.since(self)
        }
    }

    /// Whether `self` was drawn after `other`, within half the range (35 minutes); every stamp is
    /// after `NONE`.
    pub fn is_after(self, other: Stamp) -> bool {
        match (self, other) {
            (Stamp::NONE, _) => false,
            (_, Stamp::NONE) => true,
            _ => self.0 != other.0 && self.0.wrapping_sub(other.0) < 1 << 31,
        }
    }

    pub fn since(self, earlier: Stamp) -> Duration {
        Duration::from_micros(u64::from(self.0.wrapping_sub(earlier.0)))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct StampRing {
    stamps: Box<[Stamp]>,
}

impl StampRing {
    pub(crate) fn new(slots: u64) -> StampRing {
        StampRing {
            stamps: vec![Stamp::NONE; slots as usize].into_boxed_slice(),
        }
    }

    pub(crate) fn slots(&self) -> usize {
        self.stamps.len()
    }

    pub(crate) fn get(&self, sequence: u64) -> Stamp {
        self.stamps[self.slot(sequence)]
    }

    pub(crate) fn set(&mut self, sequence: u64, stamp: Stamp) {
        let slot = self.slot(sequence);
        self.stamps[slot] = stamp;
    }

    fn slot(&self, sequence: u64) -> usize {
        (sequence & (self.stamps.len() as u64 - 1)) as usize
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.stamps)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Stamps {
    /// Microseconds, not wrapped, so that stamps keep up with the clock through any pause.
    newest_us: u64,
}

impl Stamps {
    pub fn draw(&mut self, now: Instant) -> Stamp {
        self.newest_us = now.as_micros().max(self.newest_us + 1);
        if self.newest() == Stamp::NONE {
            self.newest_us += 1;
        }
        self.newest()
    }

    pub fn newest(&self) -> Stamp {
        Stamp(self.newest_us as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_one_moment_differ_and_survive_the_wrap() {
        let mut stamps = Stamps::default();
        let before_wrap = Instant::from_nanos((u64::from(u32::MAX) - 1) * 1_000);
        let drawn: Vec<Stamp> = (0..5).map(|_| stamps.draw(before_wrap)).collect();
        assert!(drawn.windows(2).all(|pair| pair[1].is_after(pair[0])));
        assert!(drawn.iter().all(|&stamp| stamp != Stamp::NONE));
        assert_eq!(drawn[4].since(drawn[0]), Duration::from_micros(5));
        let later = before_wrap + Duration::from_micros(3);
        let ages = drawn
            .iter()
            .map(|stamp| stamp.age(later).as_micros())
            .collect::<Vec<_>>();
        assert_eq!(ages, [3, 2, 0, 0, 0], "the last are ahead of the clock");
    }

    #[test]
    fn a_sender_that_begins_late_or_pauses_for_an_hour_is_in_step_with_the_clock_at_once() {
        let mut stamps = Stamps::default();
        for hours in [1, 3] {
            let now = Instant::from_nanos(hours * 3_600_000_000_000);
            assert_eq!(stamps.draw(now), Stamp(now.as_micros() as u32));
        }
        assert!(!Stamp::NONE.is_after(Stamp(u32::MAX)) && Stamp(u32::MAX).is_after(Stamp::NONE));
    }
}
