//! The real clock, as the machines see it.

use crate::{Instant, TimeSource};

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

impl TimeSource for Clock {
    fn now(&self) -> Instant {
        Clock::now(self)
    }
}
