//! Performance figures of simulated hosts and cables: of real Ethernet, or of the lab.
//!
//! All hosts of a lab share one machine. Its figures were fitted to labs of 2 and 8 hosts on 2
//! cores.

use super::settings::Conditions;
use ethbcast_planning::model::{Processing, nap_ns};
use ethbcast_transport::sim::{Cable, HostSettings, QueueLimit, SwitchSettings};
use ethbcast_transport::wire::{ETHERNET_BYTES, HEADER_BYTES};
use std::time::Duration;

/// Overhead of a frame on a real cable (IEEE 802.3) in bytes: preamble and delimiter 8, checksum 4,
/// gap 12.
const GAP_BYTES: u64 = 24;
/// Processor time to take a frame out of the receive ring: 0.2–0.4 µs with TPACKET_V3.
const RECEIVE_COST: Duration = Duration::from_nanos(400);
/// Time from a frame's arrival to a process that slept for it: half of a blocking round trip of
/// 12.4 µs.
const WAKE_UP: Duration = Duration::from_micros(6);
/// Wake-up time in a lab, whose cores are busy.
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

/// Period over which the driver counts arrivals before it uses receive coalescing, and the number
/// of frames at the start of a stream that it exempts.
const NAP_AFTER: Duration = Duration::from_millis(5);
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
        if self.lab { (2 * self.frame_bytes()).max(in_time as u64) } else { 0 }
    }

    pub fn cable(&self) -> Cable {
        Cable::new(self.rate_bits_per_second, self.delay).with_burst_bytes(self.burst_bytes())
    }

    pub fn switch(&self) -> SwitchSettings {
        let port_queue = QueueLimit::Bytes(if self.lab { LAB_PORT_QUEUE_BYTES } else { PORT_QUEUE_BYTES });
        SwitchSettings { port_queue, ..SwitchSettings::default() }
    }

    /// Returns a host's settings, for a message that occupies a cable for `transfer`.
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
        Processing { receive_frame_ns: nanos(RECEIVE_COST), wake_up_ns: nanos(wake_up), ..Processing::default() }
    }

    /// Returns the mean delay of a frame due to receive coalescing. On average the driver falls
    /// asleep half a frame before an arrival.
    fn nap(&self, transfer: Duration) -> Duration {
        if !self.naps || self.is_never_idle() {
            return Duration::ZERO;
        }
        let is_short = transfer < NAP_AFTER.max(self.frame_time() * NAP_AFTER_FRAMES);
        let nap = Duration::from_nanos(nap_ns(self.frame_time().as_nanos() as f64) as u64);
        if is_short { Duration::ZERO } else { nap.saturating_sub(self.frame_time() / 2) }
    }

    /// Whether a relay needs longer for a frame than a cable, so that it never waits for one.
    fn is_never_idle(&self) -> bool {
        let (frames, bytes) = (1.0, self.payload_bytes());
        let work =
            |processing: Processing| processing.sending_ns(frames, bytes) + processing.receiving_ns(frames, bytes);
        self.processing.is_some_and(|processing| work(processing) > self.frame_time().as_nanos() as f64)
    }

    /// Returns the time from the last frame to a receiver's verdict, if `receivers` conclude at
    /// once.
    pub fn conclusion(&self, receivers: usize) -> Duration {
        if self.lab { CONCLUSION * (receivers as u32).div_ceil(LAB_CORES) } else { CONCLUSION }
    }
}
