//! Driver for AF_PACKET and UDP sockets: runs any protocol state machine over a real network.
//!
//! Frames arrive through a TPACKET_V2 ring and are passed to the machine in place; they leave
//! through a staging area and `sendmmsg`. A [`Port`] is the [`Link`](crate::Link) over both and
//! [`drive`] the loop on it; [`Shared`] runs a machine for blocking calls of several threads, and
//! continues in the background. Only this folder uses file descriptors.
//!
//! A filter in the kernel drops every frame that is not of our EtherType, or not addressed to our
//! own MAC or our group's (a veth, a promiscuous NIC or a flooding switch delivers frames for other
//! hosts). Promiscuous mode is never turned on.
//!
//! With [`Over::Udp`] a port has two sockets of UDP instead, and the same frames travel in
//! datagrams.
//!
//! ```no_run
//! use ethbcast_transport::packet::{Clock, Interface, Port, PortConfig, Waker, drive};
//! use ethbcast_transport::wire::EtherType;
//! use std::ops::ControlFlow;
//! # use ethbcast_transport::Machine;
//! # type Anything = Result<(), Box<dyn std::error::Error>>;
//! # fn run<M: Machine>(mut machine: M, done: impl Fn(&M) -> bool) -> Anything {
//! let interface = Interface::find(Some("eth0"))?;
//! let mut port = Port::open(&interface, PortConfig::new(EtherType::DEFAULT))?;
//! drive(&mut port, &mut machine, &Waker::new()?, &Clock::start(), |machine, _now| {
//!     if done(machine) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
//! })?;
//! # Ok(()) }
//! ```

#[doc(hidden)]
mod capture;
mod error;
mod filter;
mod interface;
mod lanes;
#[doc(hidden)]
mod meter;
#[doc(hidden)]
mod node;
mod outage;
mod port;
mod ring;
mod send_buffer;
mod sender;
#[doc(hidden)]
mod served;
mod shared;
mod sleep;
mod syscall;
mod udp;

#[doc(hidden)]
pub use capture::Capture;
pub use error::{DriveError, Errno, OpenError, OptionName, spell_options};
pub use interface::{Interface, InterfaceError, IpFamily};
#[doc(hidden)]
pub use lanes::LaneTerms;
#[doc(hidden)]
pub use meter::LinkReadings;
#[doc(hidden)]
pub use node::{NodeConfig, NodeError, NodePort, NodeWaiter};
pub use port::{LaneUse, Port, Recipients};
#[doc(hidden)]
pub use sender::FrameSender;
#[doc(hidden)]
pub use served::{PortClient, PortServer};
pub use shared::Shared;
pub use sleep::{Sleeper, SocketEvents, Waker};
#[doc(hidden)]
pub use syscall::keep_little_memory;
#[doc(hidden)]
pub use udp::{Addresses, address_of, group_address, group_address_of, mac_of, stand_in};
pub use udp::{Over, ParseOverError};

use crate::wire::EtherType;
use crate::{Instant, MacAddr, Machine, TimeSource};
use nix::time::{ClockId, clock_gettime};
use std::io;
use std::ops::ControlFlow;
use std::time::Duration;
use syscall::getrandom;
use zeroize::Zeroizing;

/// A monotonic clock that starts at [`Instant::START`] when it is created; copies tell the same
/// time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    /// Starts a clock.
    pub fn start() -> Self {
        Clock {
            origin: std::time::Instant::now(),
        }
    }

    /// Returns the time since the clock was started.
    pub fn now(&self) -> Instant {
        Instant::START + self.origin.elapsed()
    }
}

/// Returns the processor time of all threads of this process, kernel time included; zero if the
/// system does not report it.
#[doc(hidden)]
pub fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map(Duration::from)
        .unwrap_or_default()
}

/// Returns the processor time of the calling thread, kernel time included; zero if the system does
/// not report it.
#[doc(hidden)]
pub fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map(Duration::from)
        .unwrap_or_default()
}

/// Returns the time for which the calling thread was ready to run and waited for a processor; zero
/// if the system does not report it.
#[doc(hidden)]
pub fn thread_waited() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = text.split_whitespace().nth(1).map(str::parse);
    Duration::from_nanos(waited.and_then(Result::ok).unwrap_or(0))
}

impl TimeSource for Clock {
    fn now(&self) -> Instant {
        Clock::now(self)
    }
}

summed! {
    /// Totals since the port was opened.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Counters {
        /// Frames handed to the machine.
        pub frames_received: u64,
        /// Bytes of the frames handed to the machine, Ethernet headers included.
        pub bytes_received: u64,
        /// Frames the kernel took for sending.
        pub frames_sent: u64,
        /// Bytes of the frames the kernel took for sending, Ethernet headers included.
        pub bytes_sent: u64,
        /// Frames that passed the filter in the kernel, the dropped ones included.
        pub kernel_accepted: u64,
        /// Frames that passed the filter and were lost because the receive ring was full.
        pub kernel_dropped: u64,
        /// Frames dropped because they were longer than a slot of the ring.
        pub truncated: u64,
        /// Frames dropped because they carried a VLAN tag.
        pub vlan_tagged: u64,
        /// Datagrams dropped because their source, or the group they were sent to, is none of the
        /// wire's.
        pub outside: u64,
        /// Times the socket's send buffer was full (EAGAIN).
        pub send_would_block: u64,
        /// Times the interface's transmit queue was full (ENOBUFS).
        pub send_no_buffers: u64,
        /// Frames given up because the transmit queue refused them for too long.
        pub frames_given_up: u64,
        /// Outages of the interface.
        pub outages: u64,
        /// `sendmmsg` calls that took at least one frame.
        pub send_batches: u64,
        /// Frames received from other processes of the same node, through shared memory.
        pub node_received: u64,
        /// Frames that another process of the node did not get because its queue was full.
        pub node_lost: u64,
        /// Times the driver returned from waiting, for any reason.
        pub poll_wakeups: u64,
    }
}

/// Draws a number that no other process has drawn.
///
/// The function uses the system call directly, even if the C library does not offer it, so that no
/// file in /dev is needed. Names must differ and are no secret: a freshly booted host with little
/// entropy is not waited for.
///
/// # Errors
/// If the kernel has no such call (before Linux 3.17), or something forbids it.
pub fn random_u64() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let drawn = match getrandom(&mut bytes, libc::GRND_INSECURE) {
        // Before Linux 5.6 the kernel does not know the flag.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => getrandom(&mut bytes, 0),
        drawn => drawn,
    };
    match drawn? {
        8 => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Draws a secret of 16 or 32 bytes, for which a freshly booted host with little entropy is waited
/// for.
///
/// # Errors
/// The errors of [`random_u64`].
#[doc(hidden)]
pub fn random_secret<const BYTES: usize>() -> io::Result<Zeroizing<[u8; BYTES]>> {
    let mut secret = Zeroizing::new([0; BYTES]);
    let mut drawn = 0;
    while drawn < BYTES {
        drawn += match getrandom(&mut secret[drawn..], 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            drawn => drawn?,
        };
    }
    Ok(secret)
}

/// Draws a number of 32 bits.
///
/// # Errors
/// The errors of [`random_u64`].
pub fn random_u32() -> io::Result<u32> {
    random_u64().map(|number| number as u32)
}

/// Runs [`crate::drive()`] on a port: drives `machine` until `application` breaks, and returns the
/// value it broke with. The loop sleeps in `poll(2)`; `waker` interrupts that.
///
/// # Errors
///
/// See [`DriveError`].
pub fn drive<M: Machine, T>(
    port: &mut Port,
    machine: &mut M,
    waker: &Waker,
    clock: &Clock,
    application: impl FnMut(&mut M, Instant) -> ControlFlow<T>,
) -> Result<T, DriveError> {
    let sleeper = port.sleeper(waker.clone()).map_err(|errno| {
        let interface = port.interface().name.clone();
        DriveError::System {
            interface,
            step: "set a timer",
            errno,
        }
    })?;
    crate::drive(port, machine, &sleeper, clock, application)
}

with_defaults! {
    /// Settings of a port: start with [`PortConfig::new`], then change fields.
    #[derive(Clone, Copy, Debug)]
    #[non_exhaustive]
    pub struct PortConfig {
        /// EtherType to receive.
        pub ether_type: EtherType = EtherType::DEFAULT,
        /// Carrier of the frames.
        pub over: Over = Over::Ethernet,
        /// Most routers, and one, that frames pass over UDP by multicast (time to live, hop limit).
        pub ttl: u8 = 1,
        /// Whether it takes at the groups' port what others send over UDP by unicast to all: one
        /// process of a host can.
        pub is_called: bool = false,
        /// Multicast address to receive beside the interface's own.
        pub group: Option<MacAddr> = None,
        /// One more multicast address to receive; not available on a socket from [a
        /// server](PortServer).
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
        /// Priority of its frames (`SO_PRIORITY`), 0 to 7: queueing disciplines go by it, and a
        /// VLAN interface writes it into the tag by its egress map (IEEE 802.1p).
        pub priority: Option<u8> = None,
        /// Longest sleep of the loop through dense arrivals, to be woken once for many frames; zero
        /// disables it. Below 20 000 frames/s it sleeps a quarter of this. Round trips get longer
        /// by as much.
        ///
        /// Default 1 ms, the longest delay of an acknowledgement: at 68 000 frames/s one wake-up
        /// for 64 frames.
        pub receive_coalescing: Duration = Duration::from_millis(1),
        /// Time after the last frame for which an urgent loop polls the ring before it sleeps; zero
        /// disables it. It applies to urgent machines in [`drive()`], and to every
        /// caller in [`Shared::wait`].
        ///
        /// Coalescing saves both sides a wake-up per frame: in a virtual machine an interrupt from
        /// one CPU to another, up to 40 µs of a round trip. It costs a CPU for as long, if no other
        /// thread wants it: the loop yields between two polls, so that eight ranks on two cores run
        /// when there is something to do.
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
        /// Index of the port's interface, if it is one of two that carry a transfer: set by
        /// [`Port::open_two`].
        pub(super) lane: Option<usize> = None,
    }
}

impl PortConfig {
    /// Returns the multicast addresses that it receives.
    fn groups(&self) -> Vec<MacAddr> {
        let groups = self.group.into_iter().chain(self.also);
        match self.lane {
            None => groups.collect(),
            Some(0) => {
                let lane = self.group.map(|group| lanes::lane_group(group, 0));
                groups.chain(lane).collect()
            }
            Some(_) => groups.map(lanes::second_group).collect(),
        }
    }

    /// Returns the defaults, for one EtherType and no group.
    pub fn new(ether_type: EtherType) -> Self {
        PortConfig {
            ether_type,
            ..PortConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_thousand_numbers_differ_and_use_all_bits() {
        let drawn: BTreeSet<u64> = (0..1000)
            .map(|_| random_u64().expect("a random number"))
            .collect();
        assert_eq!(drawn.len(), 1000);
        assert_eq!(drawn.iter().fold(0, |all, number| all | number), u64::MAX);
        assert_eq!(drawn.iter().fold(u64::MAX, |all, number| all & number), 0);
    }
}
