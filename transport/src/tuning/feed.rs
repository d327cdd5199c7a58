//! The shared buffer of a stream.

use super::error::TuningError;

/// How much a stream keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedTuning {
    /// Slots of a feed (a power of two). Not more than the receive ring has, so that credit alone keeps the ring from
    /// overflowing.
    pub frames: u64,
    /// A feed's slots are fewer if they would take more than this many bytes (jumbo frames).
    pub bytes: u64,
    /// Frames in a segment, which a relay has whole before it sends any of it on (Patarasuk 2008 §3.1); a quarter of
    /// the feed at most.
    pub segment_frames: u64,
}

impl Default for FeedTuning {
    fn default() -> Self {
        FeedTuning { frames: 4096, bytes: 16 << 20, segment_frames: 1 }
    }
}

impl FeedTuning {
    /// The fewest slots: a relay has room for a segment that goes and for one that comes, with a frame to spare for
    /// each.
    const LEAST_FRAMES: u64 = 4;

    pub(super) fn check(&self) -> Result<(), TuningError> {
        let enough = self.frames.is_power_of_two() && self.frames >= Self::LEAST_FRAMES;
        let near = self.frames.clamp(Self::LEAST_FRAMES, 1 << 62).next_power_of_two();
        TuningError::unless(enough, "feed.frames", self.frames, format_args!("a power of two, such as {near}"))?;
        TuningError::unless(self.segment_frames > 0, "feed.segment_frames", self.segment_frames, "at least 1")
    }

    /// Slots of a feed whose frames carry up to `payload_bytes`: a power of two within both limits, at least 64.
    pub(super) fn frames_for(&self, payload_bytes: usize) -> u64 {
        let affordable = (self.bytes / payload_bytes.max(1) as u64).max(64);
        let affordable = 1 << affordable.ilog2();
        affordable.min(self.frames)
    }
}
