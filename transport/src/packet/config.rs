//! Settings of the packet socket that sends and receives frames.

use super::Over;
use crate::MacAddr;
use crate::wire::EtherType;
use std::time::Duration;

with_defaults! {
    /// Settings of a port: start with [`PortConfig::new`], then change fields.
    #[derive(Clone, Copy, Debug)]
    #[non_exhaustive]
    pub struct PortConfig {
        /// EtherType to receive.
        pub ether_type: EtherType = EtherType::DEFAULT,
        /// Carrier of the frames.
        pub over: Over = Over::Ethernet,
        /// Whether it takes at the groups' port what others send over UDP by unicast to all: one process of a
        /// host can.
        pub is_called: bool = false,
        /// Multicast address to receive beside the interface's own.
        pub group: Option<MacAddr> = None,
        /// One more multicast address to receive; not available on a socket from [a
        /// server](super::PortServer).
        pub also: Option<MacAddr> = None,
        /// Memory of the receive ring in bytes; rounded, and never fewer than 64 frames.
        ///
        /// Default 8 MiB: 5 248 frames at MTU 1500, 63 ms of a 1 Gbit/s link; 120 frames at MTU
        /// 65535.
        pub receive_ring_bytes: usize = 8 << 20,
        /// Largest `SO_SNDBUF` in bytes, memory for frames that the kernel holds before they leave
        /// (the kernel doubles it and counts its own bookkeeping); at least eight frames. On a link
        /// slower than the host it is sized to hold 4 ms.
        ///
        /// Default 256 KiB: about 220 frames at MTU 1500, 2.7 ms of a 1 Gbit/s link.
        pub send_buffer_bytes: usize = 256 << 10,
        /// Whether to bypass the interface's queueing discipline. Faster on some NICs, but ignores
        /// traffic shaping.
        pub qdisc_bypass: bool = false,
        /// Priority of its frames (`SO_PRIORITY`), 0 to 7: queueing disciplines go by it, and a VLAN
        /// interface writes it into the tag by its egress map (IEEE 802.1p).
        pub priority: Option<u8> = None,
        /// Longest sleep of the loop through dense arrivals, to be woken once for many frames; zero
        /// disables it. Below 20 000 frames/s it sleeps a quarter of this. Round trips get longer
        /// by as much.
        ///
        /// Default 1 ms, the longest delay of an acknowledgement: at 68 000 frames/s one wake-up
        /// for 64 frames.
        pub receive_coalescing: Duration = Duration::from_millis(1),
        /// Time after the last frame for which an urgent loop polls the ring before it sleeps; zero
        /// disables it. It applies to urgent machines in [`drive`](super::drive()), and to every
        /// caller in [`Shared::wait`](super::Shared::wait).
        ///
        /// Coalescing saves both sides a wake-up per frame: in a virtual machine an interrupt from one CPU
        /// to another, up to 40 µs of a round trip. It costs a CPU for as long, if no other thread
        /// wants it: the loop yields between two polls, so that eight ranks on two cores run when
        /// there is something to do.
        ///
        /// Default 100 µs, about a round trip between hosts whose cards moderate their interrupts.
        /// Values from 50 to 200 µs took a cast of 256 bytes and its barrier among eight hosts of a
        /// lab on two cores from 115 to 45 µs.
        pub busy_poll: Duration = Duration::from_micros(100),
        /// Longest outage of the interface (switched off, reset, pulled out) before it is an error;
        /// until then it is silence. Zero for an error at once. It also applies if the interface
        /// takes no frames, or no long ones.
        ///
        /// Default 30 s: a switch that restarts, a virtual machine that migrates.
        pub outage_limit: Duration = Duration::from_secs(30),
        /// Descriptor of a packet socket that this process inherited, used instead of a new one;
        /// for one port only.
        pub inherited: Option<i32> = None,
        /// Whether the port receives; one that does not has the smallest ring possible.
        pub hears: bool = true,
    }
}

impl PortConfig {
    /// Returns the defaults, for one EtherType and no group.
    pub fn new(ether_type: EtherType) -> Self {
        PortConfig { ether_type, ..PortConfig::default() }
    }
}
