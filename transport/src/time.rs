//! Time in nanoseconds since the driver's start, passed in as an argument.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A clock that a driver reads: the real one, or a test's.
pub trait TimeSource {
    /// Returns the time since the driver started; never less than before.
    fn now(&self) -> Instant;
}

/// A point in time, in nanoseconds since the driver started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Start of the driver.
    pub const START: Instant = Instant(0);

    /// Returns the time `nanos` nanoseconds after the driver started.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Returns nanoseconds since the driver started.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns whole microseconds since the driver started.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns seconds since the driver started.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time from `earlier` to `self`, zero if `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, rhs: Duration) -> Instant {
        Instant(self.0.saturating_add(rhs.as_nanos() as u64))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, rhs: Duration) -> Instant {
        Instant(self.0.saturating_sub(rhs.as_nanos() as u64))
    }
}
