//! How long a sender waits before it asks, and how much later a frame must have been sent to prove an earlier one lost.

use super::error::TuningError;
use std::time::Duration;

/// The timeouts of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeoutTuning {
    /// First timeout of a sender that has no round-trip sample.
    pub initial: Duration,
    /// Shortest timeout: above `ack.delay`, or every held-back acknowledgement would be asked for.
    pub min: Duration,
    /// Shortest timeout where the acknowledgement is not to be held back: after the end of a stream, or when credit is
    /// used up.
    pub prompt: Duration,
    /// Longest timeout.
    pub max: Duration,
    /// A frame counts as lost only when one sent this much later has arrived, or a quarter of the round trip if less
    /// (RFC 8985 §6.2).
    pub reorder_max: Duration,
}

impl Default for TimeoutTuning {
    fn default() -> Self {
        TimeoutTuning {
            initial: Duration::from_millis(10),
            min: Duration::from_millis(4),
            prompt: Duration::from_millis(4),
            max: Duration::from_millis(250),
            reorder_max: Duration::from_millis(1),
        }
    }
}

impl TimeoutTuning {
    pub(super) fn check(&self) -> Result<(), TuningError> {
        TuningError::unless(
            !self.max.is_zero(),
            "timeout.max",
            self.max,
            "more than 0 s, or a sender never stops asking",
        )?;
        for (field, timeout) in
            [("timeout.initial", self.initial), ("timeout.min", self.min), ("timeout.prompt", self.prompt)]
        {
            let fits = !timeout.is_zero() && timeout <= self.max;
            TuningError::unless(
                fits,
                field,
                timeout,
                format_args!("more than 0 s and at most timeout.max, {:?}", self.max),
            )?;
        }
        Ok(())
    }
}
