//! The real clock, as the machines see it.

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

    /// The time since the clock was started.
    pub fn now(&self) -> Instant {
        Instant::START + self.origin.elapsed()
    }
}

/// How much processor time all threads of this process have had, the kernel's work for them included; zero if the
/// system does not tell.
pub fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

/// How much processor time the calling thread has had, the kernel's work for it included; zero if the system does not
/// tell.
pub fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

impl TimeSource for Clock {
    fn now(&self) -> Instant {
        Clock::now(self)
    }
}
