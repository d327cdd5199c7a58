//! How many frames may be in flight.

use super::error::TuningError;

/// The window of a sender, in frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowTuning {
    /// A new sender's window; enough for 100 Mbit/s at 3 ms.
    pub start_frames: u64,
    /// A window never falls below this, so that a link's own losses cannot stop it.
    pub min_frames: u64,
    /// A window never grows beyond this.
    pub max_frames: u64,
    /// Loss up to this part of a round is taken as the link's own and slows nothing down: plans are contention-free.
    /// Above the worst links there are (30 % in the tests), below what a sender at twice the bottleneck's rate loses.
    pub loss_tolerated_percent: u64,
}

impl Default for WindowTuning {
    fn default() -> Self {
        WindowTuning { start_frames: 32, min_frames: 16, max_frames: 4096, loss_tolerated_percent: 40 }
    }
}

impl WindowTuning {
    /// Strict go-back-n's window of 16 (EQA §3.2).
    pub fn paper() -> Self {
        WindowTuning { start_frames: 16, min_frames: 16, max_frames: 16, ..WindowTuning::default() }
    }

    pub(super) fn check(&self) -> Result<(), TuningError> {
        let (min, max) = (self.min_frames, self.max_frames);
        TuningError::unless(min > 0, "window.min_frames", min, "at least 1")?;
        TuningError::unless(
            min <= max,
            "window.min_frames",
            min,
            format_args!("at most window.max_frames, which is {max}"),
        )?;
        let start = self.start_frames;
        TuningError::unless(
            (min..=max).contains(&start),
            "window.start_frames",
            start,
            format_args!("{min} to {max}"),
        )?;
        let tolerated = self.loss_tolerated_percent;
        TuningError::unless(tolerated <= 100, "window.loss_tolerated_percent", tolerated, "0 to 100")
    }
}
