//! Calibration of a network whose hosts limit their sending rate.

use super::{Calibration, HEADER_BYTES, MAX_BURST_NS, MIN_FRAME_BYTES, Point};

impl Calibration {
    /// Returns the calibration for hosts that limit their sending rate, Ethernet headers counted,
    /// in frames of at most `frame_payload_bytes`. After a pause `burst_ns` of that rate leave at
    /// once. A limit above the link's rate changes nothing.
    ///
    /// # Panics
    /// If the rate or the payload of a frame is zero.
    pub fn limited_to(self, rate_bits_per_second: u64, frame_payload_bytes: u64, burst_ns: u64) -> Calibration {
        assert!(rate_bits_per_second > 0 && frame_payload_bytes > 0, "a limit lets something pass");
        let takes = |bytes: u64| {
            let frames = bytes.div_ceil(frame_payload_bytes).max(1);
            let wire_bytes = (bytes + frames * HEADER_BYTES).max(MIN_FRAME_BYTES);
            let nanoseconds = u128::from(wire_bytes) * 8 * 1_000_000_000 / u128::from(rate_bits_per_second);
            u64::try_from(nanoseconds).unwrap_or(u64::MAX)
        };
        let binds = takes(frame_payload_bytes) as f64 > self.gap_ns(frame_payload_bytes);
        let points = self.points.iter().map(|point| Point { gap_ns: point.gap_ns.max(takes(point.bytes)), ..*point });
        let points = points.collect();
        let burst_ns = if binds { burst_ns.min(MAX_BURST_NS) } else { self.burst_ns };
        // A limit that binds is known.
        let spread = if binds { 0.0 } else { self.spread };
        Calibration { points, burst_ns, spread, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_of_link_and_limit_is_what_a_message_takes() {
        let link = Calibration::assumed(1_000_000_000, 1468);
        let frame_ns = |rate: u64| 1514 * 8 * 1_000_000_000 / rate;
        let half = link.clone().limited_to(500_000_000, 1468, 8_000_000);
        assert_eq!(half.gap_ns(1468) as u64, frame_ns(500_000_000));
        assert_eq!(half.gap_ns(1468 * 1024) as u64, 1024 * frame_ns(500_000_000));
        assert_eq!((half.burst_ns(), half.latency_ns(1468)), (8_000_000, link.latency_ns(1468)));
        let above = link.clone().limited_to(2_000_000_000, 1468, 8_000_000);
        assert_eq!(above, link);
    }
}
