//! Rate limit of the hosts of a session.

use std::num::NonZeroU64;
use std::time::Duration;

/// Lowest limit, in bits per second: below it, control messages alone would fill the rate.
const LOWEST_BITS_PER_SECOND: u64 = 1_000_000;

/// Flag bit in the encoded rate: low-priority mode. The other bits are the limit; all set means no
/// limit.
const YIELDING: u64 = 1 << 63;

/// Rate limit of each host of a session, and whether it uses low-priority rate control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// Lowest limit: 1 Mbit/s.
    pub const LOWEST: Rate = Rate(NonZeroU64::new(LOWEST_BITS_PER_SECOND).unwrap());

    /// Highest value, which means no limit.
    pub const HIGHEST: Rate = Rate(NonZeroU64::new(YIELDING - 1).unwrap());

    /// Creates a limit in bits per second, with Ethernet headers, without preamble, check sequence
    /// and gap. `None` if it is out of range.
    pub const fn new(bits_per_second: u64) -> Option<Rate> {
        match Rate::from_number(bits_per_second) {
            Some(rate) if !rate.is_yielding() => Some(rate),
            _ => None,
        }
    }

    /// Returns this limit with low-priority rate control.
    pub fn yielding(self) -> Rate {
        Rate(self.0 | YIELDING)
    }

    /// Whether low-priority rate control is on: a host sends less where frames queue.
    pub const fn is_yielding(self) -> bool {
        self.0.get() & YIELDING != 0
    }

    /// Returns the limit in bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0.get() & !YIELDING
    }

    /// Returns the limit in bits per second, if there is one.
    pub fn limit(self) -> Option<u64> {
        Some(self.bits_per_second()).filter(|&bits| bits != Rate::HIGHEST.bits_per_second())
    }

    /// Limit and flag as one number, which older builds read as a high limit.
    pub(super) const fn number(self) -> u64 {
        self.0.get()
    }

    pub(super) const fn from_number(number: u64) -> Option<Rate> {
        match NonZeroU64::new(number) {
            Some(rate) if number & !YIELDING >= LOWEST_BITS_PER_SECOND => Some(Rate(rate)),
            _ => None,
        }
    }

    pub(super) fn time_of(self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(self.bits_per_second());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
