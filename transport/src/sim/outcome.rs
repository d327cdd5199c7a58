//! Reasons for which a simulation run ended.

use crate::{Instant, Timer};

/// Reason why a run has ended.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a run that has not gone quiet has shown nothing yet"]
#[non_exhaustive]
pub enum Outcome {
    /// The run has quiesced: no frame in flight, no deadline, no appointment.
    Quiet { at: Instant },
    /// The next event is after the time limit of the run.
    TimeLimit { at: Instant },
    /// The limit set by [`Simulation::set_event_limit`](super::Simulation::set_event_limit) is
    /// reached.
    EventLimit { at: Instant },
    /// A host requests calls endlessly at the present time, so that time does not pass.
    LiveLock {
        at: Instant,
        host: usize,
        /// The machine's timer; `None` if the application requests the calls.
        why: Option<Timer>,
    },
}

impl Outcome {
    /// Whether nothing was left to do.
    pub fn is_quiet(&self) -> bool {
        matches!(self, Outcome::Quiet { .. })
    }
}
