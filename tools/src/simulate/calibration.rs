//! The model's calibration for the simulated network, computed from its figures.

use super::settings::Conditions;
use ethbcast_planning::model::{Calibration, Point};
use ethbcast_transport::wire::OVERHEAD_BYTES;
use std::time::Duration;

/// Shortest Ethernet frame without checksum; shorter ones are padded.
const MIN_FRAME_BYTES: u64 = 60;
/// Limit on the tabulated message sizes in frames; the model extrapolates beyond.
const MAX_FRAMES: u64 = 1024;

impl Conditions {
    /// Returns the calibration that an undisturbed `ethbcast probe` would find, for messages that
    /// occupy a cable for `transfer`.
    pub fn calibration(&self, transfer: Duration) -> Calibration {
        let payload_bytes = self.payload_bytes();
        let padding_ends = MIN_FRAME_BYTES - OVERHEAD_BYTES as u64;
        let frames = (0..=MAX_FRAMES.ilog2()).map(|doublings| payload_bytes << doublings);
        let point = |bytes: u64| {
            let gap_ns = (self.gap(bytes).as_nanos() as u64).max(1);
            Point { bytes, gap_ns, latency_ns: self.latency_ns(bytes, transfer) }
        };
        let points = std::iter::once(padding_ends).chain(frames).map(point).collect();
        let calibration = Calibration::from_points(points).and_then(|calibration| calibration.with_loss(self.loss));
        let burst_ns = self.wire_time(self.burst_bytes()).as_nanos().min(1_000_000_000) as u64;
        let calibration = calibration.and_then(|calibration| calibration.with_burst_ns(burst_ns));
        calibration.expect("sizes and gaps rise, and the loss has been checked")
    }

    fn gap(&self, bytes: u64) -> Duration {
        let frames = bytes.div_ceil(self.payload_bytes()).max(1);
        let frame_bytes = (bytes + frames * OVERHEAD_BYTES as u64).max(MIN_FRAME_BYTES);
        self.wire_time(frame_bytes + frames * self.overhead_bytes())
    }

    /// Returns the time from the end of the gap to the receiving process: the switch forwards the
    /// last frame, and the process wakes up. A token bucket lets its burst pass before the gap
    /// ends.
    fn latency_ns(&self, bytes: u64, transfer: Duration) -> i64 {
        let host = self.host(transfer);
        let process = host.wake_up + host.per_frame_cost + self.delay * 2;
        let nanos = |time: Duration| time.as_nanos() as i64;
        match self.burst_bytes() {
            0 => nanos(process + self.gap(bytes.min(self.payload_bytes()))),
            burst_bytes => nanos(process) - nanos(self.gap(bytes).min(self.wire_time(burst_bytes))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(lab: bool) -> Conditions {
        let delay = Duration::from_nanos(500);
        Conditions {
            rate_bits_per_second: 1_000_000_000,
            mtu_bytes: 1500,
            loss: 0.25,
            delay,
            lab,
            seed: 1,
            processing: None,
            naps: true,
        }
    }

    #[test]
    fn a_frame_has_the_gap_of_the_wire_and_is_stored_once_on_its_way() {
        let calibration = conditions(false).calibration(Duration::ZERO);
        assert_eq!(calibration.gap_ns(1468), (1514.0 + 24.0) * 8.0);
        assert_eq!(calibration.gap_ns(1468 << 20), f64::from(1 << 20) * (1514.0 + 24.0) * 8.0);
        assert_eq!(calibration.gap_ns(1), (60.0 + 24.0) * 8.0);
        // Store and forward, two cables, wake-up and receive.
        assert_eq!(calibration.latency_ns(1468), (1514.0 + 24.0) * 8.0 + 1_000.0 + 6_000.0 + 400.0);
        assert_eq!(calibration.loss(), 0.25);
    }

    #[test]
    fn in_the_lab_a_frame_is_there_before_its_gap_has_passed() {
        let calibration = conditions(true).calibration(Duration::ZERO);
        assert_eq!(calibration.gap_ns(1468), 1514.0 * 8.0);
        assert_eq!(calibration.latency_ns(1468), 31_400.0 - 1514.0 * 8.0);
        // Two frames, or half a millisecond's worth, whichever is more.
        assert_eq!(calibration.latency_ns(1468 * 1024), 31_400.0 - 500_000.0);
    }
}
