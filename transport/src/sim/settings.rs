//! Properties of simulated cables, switches and hosts: rates, delays, queue lengths.

use std::time::Duration;

use crate::MacAddr;

/// A cable; both directions are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    rate_bits_per_second: u64,
    backward_bits_per_second: u64,
    delay: Duration,
    burst_bytes: u64,
}

impl Cable {
    /// 1 Gbit/s, 500 ns: some metres of copper and the transceivers at both ends.
    pub const GIGABIT: Cable = Cable {
        rate_bits_per_second: 1_000_000_000,
        backward_bits_per_second: 1_000_000_000,
        delay: Duration::from_nanos(500),
        burst_bytes: 0,
    };

    /// Creates a cable with a rate and a propagation delay.
    ///
    /// # Panics
    /// If the rate is zero: nothing would ever arrive.
    pub fn new(rate_bits_per_second: u64, delay: Duration) -> Self {
        assert!(rate_bits_per_second > 0, "a cable of 0 bit/s carries nothing: give it a rate, or cut it");
        Cable { rate_bits_per_second, backward_bits_per_second: rate_bits_per_second, delay, burst_bytes: 0 }
    }

    /// Sets another rate for the backward direction, which leads to a host, or to the first of two
    /// switches.
    ///
    /// # Panics
    /// If the rate is zero: nothing would ever arrive.
    pub fn with_backward_rate(mut self, bits_per_second: u64) -> Self {
        assert!(bits_per_second > 0, "a cable of 0 bit/s carries nothing: give it a rate, or cut it");
        self.backward_bits_per_second = bits_per_second;
        self
    }

    /// Makes the cable a token bucket: after a pause `burst_bytes` pass in no time, and only then
    /// the rate limits.
    ///
    /// A shaper such as Linux's tbf behaves like this, while a real cable needs time for every bit.
    pub fn with_burst_bytes(mut self, burst_bytes: u64) -> Self {
        self.burst_bytes = burst_bytes;
        self
    }

    /// Returns bits per second forward and backward, counting preamble, checksum and gap.
    pub fn rates_bits_per_second(self) -> [u64; 2] {
        [self.rate_bits_per_second, self.backward_bits_per_second]
    }

    /// Returns the propagation delay.
    pub fn delay(self) -> Duration {
        self.delay
    }

    /// Returns the bytes that pass in no time after a pause; 0 for a real cable.
    pub fn burst_bytes(self) -> u64 {
        self.burst_bytes
    }
}

/// Capacity of an output queue, including the frame being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Number of frames.
    Frames(usize),
    /// Number of bytes, header and padding included; an empty queue takes any one frame.
    Bytes(u64),
}

/// Storm control: the flooded frames (broadcast, multicast, unknown destination) that a switch
/// takes from one port; the rest is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StormControl {
    /// Sustained rate.
    pub frames_per_second: u64,
    /// Frames that may come at once after a pause.
    pub burst_frames: u64,
}

/// Flow control by pause frames (IEEE 802.3 annex 31B): a long queue pauses the ports that feed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseFrames {
    /// Queue length, in frames, from which pause frames are sent.
    pub high_frames: usize,
    /// Time for which the other end of the cable stops after each pause frame.
    pub lasts: Duration,
}

with_defaults! {
    /// Settings of a switch.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SwitchSettings {
        /// Queue in front of each output port; tail drop.
        // 512 frames of 1500 bytes: the 0.75 MB that a small store-and-forward switch can give one congested port.
        pub port_queue: QueueLimit = QueueLimit::Frames(512),
        /// Policer behind each input port; none by default.
        pub storm_control: Option<StormControl> = None,
        /// Bytes in all ports' queues together, in addition to each queue's own limit; a flooded
        /// frame counts once. By default each port has its own buffer.
        pub shared_bytes: Option<u64> = None,
        /// Thresholds at which a long output queue pauses the input ports that feed it; none by
        /// default.
        pub pause: Option<PauseFrames> = None,
    }

    /// Settings of a host.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HostSettings {
        /// Address; `None` for [`host_mac`] of its index.
        pub mac: Option<MacAddr> = None,
        /// Accepted group addresses; broadcast only if listed here.
        pub groups: Vec<MacAddr> = Vec::new(),
        /// Slots of the transmit ring, including the frame being sent.
        // The default of Linux drivers for a 1 Gbit/s card.
        pub nic_transmit_frames: usize = 256,
        /// Slots of the receive ring, including the frame being processed.
        pub nic_receive_frames: usize = 256,
        /// Time that the process needs for a received frame before the machine sees it.
        pub per_frame_cost: Duration = Duration::ZERO,
        /// Time that the process needs for each byte received, in picoseconds.
        pub per_byte_cost_picos: u64 = 0,
        /// Time that the process needs to send a frame; it does nothing else meanwhile.
        pub per_sent_frame_cost: Duration = Duration::ZERO,
        /// Time that the process needs for each byte sent, in picoseconds.
        pub per_sent_byte_cost_picos: u64 = 0,
        /// Delay after a frame before an idle process notices it; later arrivals wait in the ring.
        /// The delay models an interrupt and a context switch, interrupt moderation, or a driver that
        /// sleeps through arrivals.
        pub wake_up: Duration = Duration::ZERO,
        /// Granularity of timers: they fire only at multiples of it, as with the kernel's timer
        /// slack and a busy scheduler.
        pub timer_slack: Duration = Duration::ZERO,
        /// Thresholds at which a long receive ring pauses the switch; none by default.
        pub pause: Option<PauseFrames> = None,
    }
}

pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).expect("memory ends long before four billion hosts")
}

/// Returns the default address of host number `host`: locally administered, the index in its last
/// four bytes.
pub fn host_mac(host: usize) -> MacAddr {
    let [a, b, c, d] = number(host).to_be_bytes();
    MacAddr::new(0x02, 0xEB, a, b, c, d)
}
