//! How much each host of a session may send.

use std::num::NonZeroU64;
use std::time::Duration;

/// The lowest limit, in bits per second: below, signs of life and views would have it for themselves.
const LOWEST_BITS_PER_SECOND: u64 = 1_000_000;

/// In a rate's number: whoever has it gives way to others. What is left of the number is the limit, and if all of it is
/// set there is none.
const YIELDING: u64 = 1 << 63;

/// How much each host of a session may send, and whether it gives way to what others send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// The lowest there is: 1 Mbit/s.
    pub const LOWEST: Rate = Rate(NonZeroU64::new(LOWEST_BITS_PER_SECOND).unwrap());

    /// The highest, which is no limit.
    pub const HIGHEST: Rate = Rate(NonZeroU64::new(YIELDING - 1).unwrap());

    /// So many bits per second, Ethernet headers included, preamble, check sequence and gap not; none below the lowest
    /// and above the highest.
    pub const fn new(bits_per_second: u64) -> Option<Rate> {
        match Rate::from_number(bits_per_second) {
            Some(rate) if !rate.is_yielding() => Some(rate),
            _ => None,
        }
    }

    /// The same limit for hosts that give way to what others send.
    pub fn yielding(self) -> Rate {
        Rate(self.0 | YIELDING)
    }

    /// Whether a host gives way to others: it sends less where frames wait in queues.
    pub const fn is_yielding(self) -> bool {
        self.0.get() & YIELDING != 0
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0.get() & !YIELDING
    }

    /// Bits per second, if there is a limit.
    pub fn limit(self) -> Option<u64> {
        Some(self.bits_per_second()).filter(|&bits| bits != Rate::HIGHEST.bits_per_second())
    }

    /// Limit and courtesy as one number, which is a high limit for those who know no courtesy.
    pub(super) const fn number(self) -> u64 {
        self.0.get()
    }

    /// Reads it; none if the limit is too low.
    pub(super) const fn from_number(number: u64) -> Option<Rate> {
        match NonZeroU64::new(number) {
            Some(rate) if number & !YIELDING >= LOWEST_BITS_PER_SECOND => Some(Rate(rate)),
            _ => None,
        }
    }

    /// How long so many bytes of frames take.
    pub(super) fn time_of(self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(self.bits_per_second());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
