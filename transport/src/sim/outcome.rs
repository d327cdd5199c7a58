//! Why a run has ended.

use crate::{Instant, Timer};

/// Why a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a run that has not gone quiet has shown nothing yet"]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing is left to do: no frame under way, no deadline, no appointment.
    Quiet {
        /// When the last thing happened.
        at: Instant,
    },
    /// The next thing happens after the moment the run was to end.
    TimeLimit {
        /// That moment.
        at: Instant,
    },
    /// As many events have happened as [`Simulation::set_event_limit`](super::Simulation::set_event_limit) allows.
    EventLimit {
        /// When that was.
        at: Instant,
    },
    /// A host has asked again and again to be called at a moment that has come, and time does not pass.
    LiveLock {
        /// When that was.
        at: Instant,
        /// The host.
        host: usize,
        /// The machine's timer; `None` if it is the application that asks.
        why: Option<Timer>,
    },
}

impl Outcome {
    /// Whether nothing was left to do.
    pub fn is_quiet(&self) -> bool {
        matches!(self, Outcome::Quiet { .. })
    }
}
