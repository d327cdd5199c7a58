//! Rates and delays of the hosts and cables that `ethbcast simulate` simulates. The simulated
//! network and the model's calibration are made from them.

use super::Conditions;
use ethbcast_planning::model::{Calibration, Point, Processing, nap_ns};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::MacAddr;
use ethbcast_transport::sim::{Cable, HostSettings, Network, QueueLimit, SwitchSettings};
use ethbcast_transport::wire::{ETHERNET_BYTES, HEADER_BYTES, OVERHEAD_BYTES};
use std::time::Duration;

/// Overhead of a frame on a real cable (IEEE 802.3) in bytes: preamble and delimiter 8, checksum 4,
/// gap 12.
const GAP_BYTES: u64 = 24;
/// Processor time to take a frame out of the receive ring: 0.2–0.4 µs with TPACKET_V3.
const RECEIVE_COST: Duration = Duration::from_nanos(400);
/// Time from a frame's arrival to a process that slept for it: half of a blocking round trip of
/// 12.4 µs, but longer in a lab, whose cores are busy.
const WAKE_UP: Duration = Duration::from_micros(6);
const LAB_WAKE_UP: Duration = Duration::from_micros(30);
/// Time from the last frame to the receiver's verdict: digest, sync and rename of a file in memory,
/// on a separate thread.
const CONCLUSION: Duration = Duration::from_micros(150);
const LAB_CORES: u32 = 2;
/// Slots of a receive ring: more than the feed grants credit for, as in the tool.
const RECEIVE_FRAMES: usize = 4096 + 256;
/// Duration of data that the driver lets the kernel queue, within limits in frames.
const SEND_HOLD: Duration = Duration::from_millis(4);
const SEND_FRAMES: (u64, u64) = (8, 227);
/// Buffer of a port of a small store-and-forward switch under congestion, and of the lab's
/// switches.
const PORT_QUEUE_BYTES: u64 = 768 << 10;
const LAB_PORT_QUEUE_BYTES: u64 = 256 << 10;
/// Duration of a token bucket's burst in the lab; two frames at least.
const LAB_BURST: Duration = Duration::from_micros(500);

/// Period over which the driver counts arrivals before it uses receive coalescing.
const NAP_AFTER: Duration = Duration::from_millis(5);
/// Frames at the start of a stream that receive coalescing exempts.
const NAP_AFTER_FRAMES: u32 = 64;

impl Conditions {
    /// Returns the overhead of a frame on a cable; tbf, which shapes the lab's cables, counts none.
    pub fn overhead_bytes(&self) -> u64 {
        if self.lab { 0 } else { GAP_BYTES }
    }

    pub fn wire_time(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 8_000_000_000 / u128::from(self.rate_bits_per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn frame_time(&self) -> Duration {
        self.wire_time(self.frame_bytes() + self.overhead_bytes())
    }

    fn frame_bytes(&self) -> u64 {
        u64::from(self.mtu_bytes) + ETHERNET_BYTES as u64
    }

    pub fn payload_bytes(&self) -> u64 {
        u64::from(self.mtu_bytes) - HEADER_BYTES as u64
    }

    /// Returns the bytes that pass a cable at once after a pause: none, or a token bucket's burst
    /// in the lab.
    pub fn burst_bytes(&self) -> u64 {
        let in_time = self.rate_bits_per_second as f64 / 8.0 * LAB_BURST.as_secs_f64();
        if self.lab {
            (2 * self.frame_bytes()).max(in_time as u64)
        } else {
            0
        }
    }

    pub fn cable(&self) -> Cable {
        Cable::new(self.rate_bits_per_second, self.delay).with_burst_bytes(self.burst_bytes())
    }

    pub fn switch(&self) -> SwitchSettings {
        let port_queue = QueueLimit::Bytes(if self.lab {
            LAB_PORT_QUEUE_BYTES
        } else {
            PORT_QUEUE_BYTES
        });
        SwitchSettings {
            port_queue,
            ..SwitchSettings::default()
        }
    }

    pub fn host(&self, transfer: Duration) -> HostSettings {
        let held_frames = SEND_HOLD.as_nanos() / self.frame_time().as_nanos().max(1);
        let processing = self.processing.unwrap_or_else(|| self.usual_processing());
        HostSettings {
            nic_transmit_frames: (held_frames as u64).clamp(SEND_FRAMES.0, SEND_FRAMES.1) as usize,
            nic_receive_frames: RECEIVE_FRAMES,
            per_frame_cost: Duration::from_nanos(processing.receive_frame_ns),
            per_byte_cost_picos: processing.receive_byte_ps,
            per_sent_frame_cost: Duration::from_nanos(processing.send_frame_ns),
            per_sent_byte_cost_picos: processing.send_byte_ps,
            wake_up: Duration::from_nanos(processing.wake_up_ns).max(self.nap(transfer)),
            ..HostSettings::default()
        }
    }

    fn usual_processing(&self) -> Processing {
        let wake_up = if self.lab { LAB_WAKE_UP } else { WAKE_UP };
        let nanos = |time: Duration| time.as_nanos() as u64;
        Processing {
            receive_frame_ns: nanos(RECEIVE_COST),
            wake_up_ns: nanos(wake_up),
            ..Processing::default()
        }
    }

    /// Returns the mean delay of a frame due to receive coalescing. On average the driver falls
    /// asleep half a frame before an arrival.
    fn nap(&self, transfer: Duration) -> Duration {
        if !self.naps || self.is_never_idle() {
            return Duration::ZERO;
        }
        let is_short = transfer < NAP_AFTER.max(self.frame_time() * NAP_AFTER_FRAMES);
        let nap = Duration::from_nanos(nap_ns(self.frame_time().as_nanos() as f64) as u64);
        if is_short {
            Duration::ZERO
        } else {
            nap.saturating_sub(self.frame_time() / 2)
        }
    }

    /// Whether a relay needs longer for a frame than a cable, so that it never waits for one.
    fn is_never_idle(&self) -> bool {
        let (frames, bytes) = (1.0, self.payload_bytes());
        let work = |processing: Processing| {
            processing.sending_ns(frames, bytes) + processing.receiving_ns(frames, bytes)
        };
        self.processing
            .is_some_and(|processing| work(processing) > self.frame_time().as_nanos() as f64)
    }

    /// Returns the time from the last frame to a receiver's verdict, if `receivers` conclude at
    /// once.
    pub fn conclusion(&self, receivers: usize) -> Duration {
        if self.lab {
            CONCLUSION * (receivers as u32).div_ceil(LAB_CORES)
        } else {
            CONCLUSION
        }
    }
}

/// Shortest Ethernet frame without checksum; shorter ones are padded.
const MIN_FRAME_BYTES: u64 = 60;
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
            Point {
                bytes,
                gap_ns,
                latency_ns: self.latency_ns(bytes, transfer),
            }
        };
        let points = std::iter::once(padding_ends)
            .chain(frames)
            .map(point)
            .collect();
        let calibration = Calibration::from_points(points)
            .and_then(|calibration| calibration.with_loss(self.loss));
        let burst_ns = self
            .wire_time(self.burst_bytes())
            .as_nanos()
            .min(1_000_000_000) as u64;
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

#[derive(Debug)]
pub struct Wiring {
    pub network: Network,
    /// Names at both ends of each cable, in the simulator's order.
    pub ends: Vec<[String; 2]>,
}

impl Wiring {
    /// Builds `topology` under `conditions`. Every host accepts frames for `group`, and the message
    /// occupies a cable for `transfer`.
    pub fn new(
        topology: &Topology,
        conditions: &Conditions,
        transfer: Duration,
        group: MacAddr,
    ) -> Wiring {
        let mut network = Network::new()
            .with_mtu_bytes(usize::from(conditions.mtu_bytes))
            .with_overhead_bytes(conditions.overhead_bytes() as usize);
        let cable = |known: Option<u64>, latency_ns: u64| {
            let rate_bits_per_second = known.unwrap_or(conditions.rate_bits_per_second);
            Conditions {
                rate_bits_per_second,
                delay: conditions.delay + Duration::from_nanos(latency_ns),
                ..conditions.clone()
            }
            .cable()
        };
        let settings = HostSettings {
            groups: vec![group],
            ..conditions.host(transfer)
        };
        let mut ends = Vec::new();
        let switches: Vec<_> = topology
            .switches()
            .iter()
            .map(|_| network.add_switch(conditions.switch()))
            .collect();
        for (host, name) in topology.hosts().iter().enumerate() {
            let switch = topology.switch_of(host);
            network.add_host(
                switches[switch],
                cable(topology.host_rate(host), topology.host_latency_ns(host)),
                settings.clone(),
            );
            ends.push([name.clone(), topology.switches()[switch].clone()]);
        }
        for &(left, right) in topology.cables() {
            let latency_ns = topology.cable_latency_ns(left, right);
            let cable = cable(topology.cable_rate(left, right), latency_ns);
            network
                .connect(switches[left], switches[right], cable)
                .expect("the switches of a topology form a tree");
            ends.push([left, right].map(|switch| topology.switches()[switch].clone()));
        }
        Wiring { network, ends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_transport::wire::group_mac;

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
        assert_eq!(
            calibration.gap_ns(1468 << 20),
            f64::from(1 << 20) * (1514.0 + 24.0) * 8.0
        );
        assert_eq!(calibration.gap_ns(1), (60.0 + 24.0) * 8.0);
        // Store and forward, two cables, wake-up and receive.
        assert_eq!(
            calibration.latency_ns(1468),
            (1514.0 + 24.0) * 8.0 + 1_000.0 + 6_000.0 + 400.0
        );
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

    #[test]
    fn every_cable_of_the_topology_is_there_with_the_names_at_its_ends() {
        let topology = Topology::builtin("fig9-5").expect("a test bed");
        let conditions = Conditions {
            rate_bits_per_second: 100_000_000,
            mtu_bytes: 1500,
            loss: 0.0,
            delay: Duration::ZERO,
            lab: false,
            seed: 1,
            processing: None,
            naps: true,
        };
        let wiring = Wiring::new(&topology, &conditions, Duration::ZERO, group_mac("test"));
        assert_eq!((wiring.network.hosts(), wiring.ends.len()), (32, 32 + 3));
        assert_eq!(
            wiring.ends[wiring.network.cable_of(6).index()],
            ["n6", "s2"]
        );
        assert_eq!(
            wiring.ends[32..],
            [["s0", "s1"], ["s1", "s2"], ["s2", "s3"]]
        );
    }
}
