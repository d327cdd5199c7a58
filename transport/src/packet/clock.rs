//! The real clock of the driver.

use crate::{Instant, TimeSource};
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// A monotonic clock that starts at [`Instant::START`] when it is created; copies tell the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    /// Starts a clock.
    pub fn start() -> Self {
        Clock { origin: std::time::Instant::now() }
    }

    /// Returns the time since the clock was started.
    pub fn now(&self) -> Instant {
        Instant::START + self.origin.elapsed()
    }
}

/// Returns the processor time of all threads of this process, kernel time included; zero if the
/// system does not report it.
pub fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

/// Returns the processor time of the calling thread, kernel time included; zero if the system does
/// not report it.
pub fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

impl TimeSource for Clock {
    fn now(&self) -> Instant {
        Clock::now(self)
    }
}
