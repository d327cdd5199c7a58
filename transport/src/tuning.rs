//! Every number the engine runs on, each with its unit, its source and its reason.

use std::time::Duration;

/// What a receiver does with frames that arrive out of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Strict go-back-n: they are thrown away, and the sender goes back (EQA §3.2).
    InOrderOnly,
    /// They are kept, and the sender is told the holes.
    #[default]
    HolesAllowed,
}

/// The engine's numbers. [`Tuning::default`] is what the tool runs on; [`Tuning::paper`] is the EQA paper's protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Out-of-order frames: kept or thrown away.
    pub policy: Policy,
    /// Slots of a feed (a power of two). Not more than the receive ring has, so that credit alone keeps the ring from overflowing.
    pub feed_frames: u64,
    /// A feed's slots are fewer if they would take more than this many bytes (jumbo frames).
    pub feed_bytes: u64,
    /// Frames in a segment, which a relay has whole before it sends any of it on (Patarasuk 2008 §3.1); a quarter of the feed at most.
    pub segment_frames: u64,
    /// Window of a new lane, in frames. DESIGN §8; enough for 100 Mbit/s at 3 ms.
    pub window_start_frames: u64,
    /// A lane's window never falls below this, so that a link's own losses cannot stop it.
    pub window_min_frames: u64,
    /// A lane's window never grows beyond this.
    pub window_max_frames: u64,
    /// Loss up to this part of a round is taken as the link's own and slows nothing down: plans are contention-free. Above the
    /// worst links there are (30 % in the tests), below what a sender at twice the bottleneck's rate loses.
    pub loss_tolerated_percent: u64,
    /// A receiver acknowledges at least every this many frames. DESIGN §8.
    pub ack_every_frames: u64,
    /// A receiver acknowledges at most this long after a frame. Below the smallest timeout of a sender.
    pub ack_delay: Duration,
    /// A gap is reported this long after it is seen (staggered among the receivers of a cast).
    pub gap_delay: Duration,
    /// First timeout of a sender that has no round-trip sample. DESIGN §8.
    pub timeout_initial: Duration,
    /// Shortest timeout of a sender: above `ack_delay`, or every held-back acknowledgement would be asked for.
    pub timeout_min: Duration,
    /// Longest timeout of a sender.
    pub timeout_max: Duration,
    /// A frame counts as lost only when one sent this much later has arrived, or a quarter of the round trip if less (RFC 8985 §6.2).
    pub reorder_max: Duration,
    /// Repairs a cast may send for each hundred new frames while it has new ones. DESIGN §8: 25 % of the rate.
    pub repair_percent: u64,
    /// How long a cast waits for others to report a loss before it repairs it by unicast: longer than their stagger.
    pub repair_hold: Duration,
    /// New frames between two looks at a cast's loss.
    pub cast_round_frames: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            policy: Policy::HolesAllowed,
            feed_frames: 4096,
            feed_bytes: 16 << 20,
            segment_frames: 1,
            window_start_frames: 32,
            window_min_frames: 16,
            window_max_frames: 4096,
            loss_tolerated_percent: 40,
            ack_every_frames: 16,
            ack_delay: Duration::from_millis(1),
            gap_delay: Duration::ZERO,
            timeout_initial: Duration::from_millis(10),
            timeout_min: Duration::from_millis(4),
            timeout_max: Duration::from_millis(250),
            reorder_max: Duration::from_millis(1),
            repair_percent: 25,
            repair_hold: Duration::from_micros(500),
            cast_round_frames: 256,
        }
    }
}

impl Tuning {
    /// The EQA paper's protocol: strict go-back-n with a window of 16 (§3.2).
    pub fn paper() -> Self {
        Tuning {
            policy: Policy::InOrderOnly,
            window_start_frames: 16,
            window_min_frames: 16,
            window_max_frames: 16,
            ack_every_frames: 4,
            ..Tuning::default()
        }
    }

    /// The same numbers for one receiver of a cast that acknowledges to the same host as `siblings` receivers in all, at
    /// `position` among them: acknowledgements become rarer and staggered as they grow in number (DESIGN §8), so that at full
    /// speed their parent hears about one for every 32 frames.
    pub fn for_cast(&self, siblings: usize, position: usize) -> Tuning {
        let mut tuning = self.clone();
        let siblings = siblings.max(1) as u32;
        let spread = siblings.div_ceil(8);
        tuning.ack_every_frames = (u64::from(siblings) * 32).clamp(tuning.ack_every_frames, 512);
        tuning.ack_delay *= 2 * spread;
        tuning.timeout_min *= 2 * spread;
        // A step of 37 spreads neighbours over the 100 µs.
        tuning.gap_delay = Duration::from_micros(position as u64 * 37 % 100) * spread;
        tuning
    }

    /// Slots of a feed whose frames carry up to `payload_bytes`: a power of two within both limits, at least 64.
    pub fn feed_frames_for(&self, payload_bytes: usize) -> u64 {
        let affordable = (self.feed_bytes / payload_bytes.max(1) as u64).max(64);
        let affordable = 1 << affordable.ilog2();
        affordable.min(self.feed_frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_is_bounded_in_frames_and_in_bytes() {
        let tuning = Tuning::default();
        assert_eq!(tuning.feed_frames_for(1468), 4096);
        assert_eq!(tuning.feed_frames_for(65_503), 256);
        assert_eq!(tuning.feed_frames_for(1 << 24), 64);
    }
}
