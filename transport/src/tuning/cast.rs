//! One frame for all receivers: repairs, pushing, and who of them acknowledges for the others.

use super::error::TuningError;
use std::time::Duration;

/// The sending end of a cast, and those who repair in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CastTuning {
    /// Frames of a message that are pushed at once, before the designated receiver has answered and the rest follows
    /// (EQA §3.3); `None` for Simple Broadcast.
    pub push_frames: Option<u64>,
    /// Repairs a cast may send for each hundred new frames while it has new ones: a quarter of the rate.
    pub repair_percent: u64,
    /// How long a cast waits for others to report a loss before it repairs it by unicast: longer than their stagger.
    pub repair_hold: Duration,
    /// New frames between two looks at a cast's loss.
    pub round_frames: u64,
    /// A receiver that others acknowledge to gives a frame this much time to reach them after itself, before it sends
    /// it: more than the stagger between two ports of a switch, less than a repair is worth waiting for.
    pub arrival_tolerance: Duration,
}

impl Default for CastTuning {
    fn default() -> Self {
        CastTuning {
            push_frames: None,
            repair_percent: 25,
            repair_hold: Duration::from_micros(500),
            round_frames: 256,
            arrival_tolerance: Duration::from_micros(500),
        }
    }
}

impl CastTuning {
    pub(super) fn check(&self) -> Result<(), TuningError> {
        TuningError::unless(
            self.push_frames != Some(0),
            "cast.push_frames",
            self.push_frames,
            "None, or at least Some(1)",
        )?;
        TuningError::unless(self.round_frames > 0, "cast.round_frames", self.round_frames, "at least 1")
    }
}

/// The designated receiver: one, the slowest, acknowledges often and the others now and then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesignatedTuning {
    /// Whether there is one; pushing needs one in any case.
    pub enabled: bool,
    /// Whether this receiver is the designated one until the root names another.
    pub first: bool,
    /// It acknowledges at least every this many frames: enough to keep round trip and credit fresh.
    pub every_frames: u64,
    /// And at most this long after a frame.
    pub delay: Duration,
}

impl Default for DesignatedTuning {
    fn default() -> Self {
        DesignatedTuning { enabled: false, first: false, every_frames: 64, delay: Duration::from_millis(1) }
    }
}

impl DesignatedTuning {
    pub(super) fn check(&self) -> Result<(), TuningError> {
        TuningError::unless(self.every_frames > 0, "designated.every_frames", self.every_frames, "at least 1")
    }
}
