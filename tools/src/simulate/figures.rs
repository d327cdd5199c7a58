//! What simulated hosts and cables are like, in figures: real Ethernet, or the lab's.
//!
//! All hosts of a lab share one machine; its figures were fitted to labs of 2 and 8 hosts on 2 cores.

use super::settings::Conditions;
use ethbcast_planning::model::{Processing, nap_ns};
use ethbcast_transport::sim::{Cable, HostSettings, QueueLimit, SwitchSettings};
use ethbcast_transport::wire::{ETHERNET_BYTES, HEADER_BYTES};
use std::time::Duration;

/// Preamble and delimiter 8, checksum 4, gap 12 (IEEE 802.3): what a frame costs on a real cable beside its own bytes.
const GAP_BYTES: u64 = 24;
/// What a process needs to take a frame out of its receive ring: 0.2–0.4 µs with TPACKET_V3.
const RECEIVE_COST: Duration = Duration::from_nanos(400);
/// From a frame's arrival to the process that slept for it: half of a blocking round trip, 12.4 µs.
const WAKE_UP: Duration = Duration::from_micros(6);
/// The same in a lab, whose cores have much else to do.
const LAB_WAKE_UP: Duration = Duration::from_micros(30);
/// From the last frame to the receiver's verdict: digest, sync and rename of a file in memory, on a thread of their
/// own.
const CONCLUSION: Duration = Duration::from_micros(150);
/// The cores that all hosts of the lab share.
const LAB_CORES: u32 = 2;
/// Slots of a receive ring: more than the feed grants credit for, as the tool opens its ring.
const RECEIVE_FRAMES: usize = 4096 + 256;
/// The driver lets the kernel hold this much of what it sends, and no less and no more than so many frames.
const SEND_HOLD: Duration = Duration::from_millis(4);
const SEND_FRAMES: (u64, u64) = (8, 227);
/// What a small store-and-forward switch can give one congested port, and what a port of the lab's switches holds.
const PORT_QUEUE_BYTES: u64 = 768 << 10;
const LAB_PORT_QUEUE_BYTES: u64 = 256 << 10;
/// What the lab's token buckets hold: two frames at least, and what comes in this time.
const LAB_BURST: Duration = Duration::from_micros(500);

/// The driver counts arrivals for so long before it sleeps through dense ones, and lets a stream begin with so many
/// frames.
const NAP_AFTER: Duration = Duration::from_millis(5);
const NAP_AFTER_FRAMES: u32 = 64;

impl Conditions {
    /// What a frame costs on a cable beside its own bytes; tbf, which shapes the lab's cables, counts no more than
    /// these.
    pub fn overhead_bytes(&self) -> u64 {
        if self.lab { 0 } else { GAP_BYTES }
    }

    /// How long a cable needs for so many bytes.
    pub fn wire_time(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 8_000_000_000 / u128::from(self.rate_bits_per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How long a cable is busy with a full frame.
    fn frame_time(&self) -> Duration {
        self.wire_time(self.frame_bytes() + self.overhead_bytes())
    }

    /// A full frame.
    fn frame_bytes(&self) -> u64 {
        u64::from(self.mtu_bytes) + ETHERNET_BYTES as u64
    }

    /// The payload of a full frame.
    pub fn payload_bytes(&self) -> u64 {
        u64::from(self.mtu_bytes) - HEADER_BYTES as u64
    }

    /// What passes a cable in no time after a pause: nothing, or what the lab's token buckets hold.
    pub fn burst_bytes(&self) -> u64 {
        let in_time = self.rate_bits_per_second as f64 / 8.0 * LAB_BURST.as_secs_f64();
        if self.lab { (2 * self.frame_bytes()).max(in_time as u64) } else { 0 }
    }

    /// Every cable.
    pub fn cable(&self) -> Cable {
        Cable::new(self.rate_bits_per_second, self.delay).with_burst_bytes(self.burst_bytes())
    }

    /// Every switch.
    pub fn switch(&self) -> SwitchSettings {
        let port_queue = QueueLimit::Bytes(if self.lab { LAB_PORT_QUEUE_BYTES } else { PORT_QUEUE_BYTES });
        SwitchSettings { port_queue, ..SwitchSettings::default() }
    }

    /// Every host, for a message that keeps a cable busy for `transfer`.
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

    /// What a host takes that nobody has measured.
    fn usual_processing(&self) -> Processing {
        let wake_up = if self.lab { LAB_WAKE_UP } else { WAKE_UP };
        let nanos = |time: Duration| time.as_nanos() as u64;
        Processing { receive_frame_ns: nanos(RECEIVE_COST), wake_up_ns: nanos(wake_up), ..Processing::default() }
    }

    /// How late the driver finds a frame because it sleeps through arrivals: it falls asleep half a frame before one,
    /// on average.
    fn nap(&self, transfer: Duration) -> Duration {
        if !self.naps || self.is_never_idle() {
            return Duration::ZERO;
        }
        let is_short = transfer < NAP_AFTER.max(self.frame_time() * NAP_AFTER_FRAMES);
        let nap = Duration::from_nanos(nap_ns(self.frame_time().as_nanos() as f64) as u64);
        if is_short { Duration::ZERO } else { nap.saturating_sub(self.frame_time() / 2) }
    }

    /// Whether what a relay takes for a frame is more than what a cable does: then it never waits for one.
    fn is_never_idle(&self) -> bool {
        let (frames, bytes) = (1.0, self.payload_bytes());
        let work =
            |processing: Processing| processing.sending_ns(frames, bytes) + processing.receiving_ns(frames, bytes);
        self.processing.is_some_and(|processing| work(processing) > self.frame_time().as_nanos() as f64)
    }

    /// From the last frame to a receiver's verdict, if so many conclude at once.
    pub fn conclusion(&self, receivers: usize) -> Duration {
        if self.lab { CONCLUSION * (receivers as u32).div_ceil(LAB_CORES) } else { CONCLUSION }
    }
}
