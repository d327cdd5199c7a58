//! Transmission stamps: microseconds, strictly increasing, echoed by receivers (the idea of RFC 7323 §3 and RFC 8985 §5.1).
//!
//! Each transmission of a sender, first or repeated, carries a stamp of its own. An echo therefore gives a round trip without
//! ambiguity, and says of every frame with an older stamp that it was overtaken.

use crate::time::Instant;
use std::time::Duration;

/// A transmission stamp; zero stands for "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(pub u32);

impl Stamp {
    /// No stamp.
    pub const NONE: Stamp = Stamp(0);

    /// Whether `self` was drawn after `other`, within half the range (35 minutes).
    pub fn is_after(self, other: Stamp) -> bool {
        self.0 != other.0 && self.0.wrapping_sub(other.0) < 1 << 31
    }

    /// The time from `earlier` to `self`.
    pub fn since(self, earlier: Stamp) -> Duration {
        Duration::from_micros(u64::from(self.0.wrapping_sub(earlier.0)))
    }
}

/// Draws the stamps of one sender.
#[derive(Clone, Debug, Default)]
pub struct Stamps {
    newest: Stamp,
}

impl Stamps {
    /// The next stamp: the time, or one more than the last if the clock has not moved on.
    pub fn draw(&mut self, now: Instant) -> Stamp {
        let at = Stamp(now.as_micros() as u32);
        let next = if at.is_after(self.newest) { at } else { Stamp(self.newest.0.wrapping_add(1)) };
        self.newest = if next == Stamp::NONE { Stamp(1) } else { next };
        self.newest
    }

    /// The last stamp drawn.
    pub fn newest(&self) -> Stamp {
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_one_moment_differ_and_survive_the_wrap() {
        let mut stamps = Stamps::default();
        let before_wrap = Instant::from_nanos((u64::from(u32::MAX) - 1) * 1_000);
        // The clock wraps after 71 minutes; a sender draws often enough never to be half the range behind.
        for part in 1..4 {
            stamps.draw(Instant::from_nanos(before_wrap.as_nanos() / 4 * part));
        }
        let drawn: Vec<Stamp> = (0..5).map(|_| stamps.draw(before_wrap)).collect();
        assert!(drawn.windows(2).all(|pair| pair[1].is_after(pair[0])));
        assert!(drawn.iter().all(|&stamp| stamp != Stamp::NONE));
        assert_eq!(drawn[4].since(drawn[0]), Duration::from_micros(5));
    }
}
