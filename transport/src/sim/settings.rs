//! What cables, switches and hosts can do.

use std::time::Duration;

use crate::MacAddr;

/// What a cable can carry; both directions are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    rate_bits_per_second: u64,
    delay: Duration,
    burst_bytes: u64,
}

impl Cable {
    /// 1 Gbit/s, 500 ns: some metres of copper and the transceivers at both ends.
    pub const GIGABIT: Cable =
        Cable { rate_bits_per_second: 1_000_000_000, delay: Duration::from_nanos(500), burst_bytes: 0 };

    /// A cable with a rate and the time a bit needs from end to end.
    ///
    /// # Panics
    /// If the rate is zero: nothing would ever arrive.
    pub fn new(rate_bits_per_second: u64, delay: Duration) -> Self {
        assert!(rate_bits_per_second > 0, "a cable of 0 bit/s carries nothing: give it a rate, or cut it");
        Cable { rate_bits_per_second, delay, burst_bytes: 0 }
    }

    /// Makes it a token bucket instead of a wire: after a pause so many bytes pass in no time, and only then the rate
    /// counts.
    ///
    /// That is what a shaper such as Linux's tbf does, where a wire takes its time for every single bit.
    pub fn with_burst_bytes(mut self, burst_bytes: u64) -> Self {
        self.burst_bytes = burst_bytes;
        self
    }

    /// Bits per second, preamble, checksum and gap included.
    pub fn rate_bits_per_second(self) -> u64 {
        self.rate_bits_per_second
    }

    /// The time a bit needs from end to end.
    pub fn delay(self) -> Duration {
        self.delay
    }

    /// How many bytes pass in no time after a pause; 0 for a wire.
    pub fn burst_bytes(self) -> u64 {
        self.burst_bytes
    }
}

/// How much an output queue holds, counting the frame that is just being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// At most so many frames.
    Frames(usize),
    /// At most so many bytes, header and padding included; an empty queue takes any one frame.
    Bytes(u64),
}

/// How many flooded frames (broadcast, multicast, unknown destination) a switch takes from one port; the rest is
/// dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StormControl {
    /// The sustained rate.
    pub frames_per_second: u64,
    /// How many frames may come at once after a pause.
    pub burst_frames: u64,
}

/// Flow control by pause frames (IEEE 802.3 annex 31B): a queue that is so long stops whoever sends into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseFrames {
    /// From so many frames in the queue on.
    pub high_frames: usize,
    /// How long the other end of the cable is silent after each pause frame.
    pub lasts: Duration,
}

with_defaults! {
    /// One switch.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SwitchSettings {
        /// The queue in front of each output port; tail drop.
        // 512 frames of 1500 bytes: the 0.75 MB that a small store-and-forward switch can give one congested port.
        pub port_queue: QueueLimit = QueueLimit::Frames(512),
        /// The policer behind each input port; none by default.
        pub storm_control: Option<StormControl> = None,
        /// All its ports' queues together hold so many bytes, whatever each may hold, and a flooded frame once for all
        /// of them; a buffer of its own for each by default.
        pub shared_bytes: Option<u64> = None,
        /// Whether a long queue at an output port stops the input ports that fill it; not by default.
        pub pause: Option<PauseFrames> = None,
    }

    /// One host.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HostSettings {
        /// Its address; `None` for [`host_mac`] of its index.
        pub mac: Option<MacAddr> = None,
        /// Group addresses it takes frames for; broadcast only if listed here.
        pub groups: Vec<MacAddr> = Vec::new(),
        /// Slots of the transmit ring, the frame being sent included.
        // What Linux drivers set up for a 1 Gbit/s card.
        pub nic_transmit_frames: usize = 256,
        /// Slots of the receive ring, the frame being processed included.
        pub nic_receive_frames: usize = 256,
        /// What the process needs for one received frame before the machine sees it.
        pub per_frame_cost: Duration = Duration::ZERO,
        /// What it needs for each byte of one, in picoseconds.
        pub per_byte_cost_picos: u64 = 0,
        /// What the process needs to send a frame: meanwhile it does nothing else.
        pub per_sent_frame_cost: Duration = Duration::ZERO,
        /// What it needs for each byte of one, in picoseconds.
        pub per_sent_byte_cost_picos: u64 = 0,
        /// How long after a frame the process takes notice if it was idle; what arrives meanwhile it finds in the ring.
        /// The delay of an interrupt and a context switch, of a card that moderates its interrupts, or of a driver that
        /// sleeps through arrivals.
        pub wake_up: Duration = Duration::ZERO,
        /// Timers ring only at moments that lie so far apart: what the kernel's timer slack and a busy scheduler do.
        pub timer_slack: Duration = Duration::ZERO,
        /// Whether a long receive ring stops the switch; not by default.
        pub pause: Option<PauseFrames> = None,
    }
}

/// Numbers are kept in 32 bits to keep events small.
pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).expect("memory ends long before four billion hosts")
}

/// The address of host number `host` unless told otherwise: locally administered, the index in its last four bytes.
pub fn host_mac(host: usize) -> MacAddr {
    let [a, b, c, d] = number(host).to_be_bytes();
    MacAddr::new(0x02, 0xEB, a, b, c, d)
}
