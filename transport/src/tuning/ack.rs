//! When a receiver acknowledges, and when it reports a loss.

use super::error::TuningError;
use std::time::Duration;

/// The acknowledgements of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckTuning {
    /// At least every this many frames.
    pub every_frames: u64,
    /// Which of those frames it is, in thousandths, so that the receivers of a cast speak one after the other; `None`
    /// if whichever.
    pub turn_permille: Option<u64>,
    /// At most this long after a frame. Below the smallest timeout of a sender.
    pub delay: Duration,
    /// New room is told of at once when it is one of so many parts of the feed: a quarter keeps a sender from standing
    /// still.
    pub room_parts: u64,
    /// A gap is reported, and a question answered, this long after it came (staggered among the receivers of a cast).
    pub gap_delay: Duration,
    /// Where so many receivers would report the same loss to one host, reports wait by RFC 5401's back-off instead, so
    /// that most of them are not needed any more; `None` if `gap_delay` is enough.
    pub backoff_group: Option<u32>,
    /// The longest back-off, in round trips of the group: RFC 5401 §3.2.2's K.
    pub backoff_round_trips: u32,
    /// The round trip of the group, assumed: in RFC 5401 the sender measures and announces it. On switched Ethernet it
    /// is two wake-ups and what waits at the root before a repair: 32 full frames at 1 Gbit/s are 400 µs.
    pub group_round_trip: Duration,
}

impl Default for AckTuning {
    fn default() -> Self {
        AckTuning {
            every_frames: 16,
            turn_permille: None,
            delay: Duration::from_millis(1),
            room_parts: 4,
            gap_delay: Duration::ZERO,
            backoff_group: None,
            backoff_round_trips: 6,
            group_round_trip: Duration::from_micros(500),
        }
    }
}

impl AckTuning {
    pub(super) fn check(&self) -> Result<(), TuningError> {
        TuningError::unless(self.every_frames > 0, "ack.every_frames", self.every_frames, "at least 1")?;
        let turn = self.turn_permille;
        TuningError::unless(
            turn.is_none_or(|permille| permille < 1000),
            "ack.turn_permille",
            turn,
            "None, or 0 to 999",
        )?;
        TuningError::unless(self.room_parts > 0, "ack.room_parts", self.room_parts, "at least 1")
    }
}
