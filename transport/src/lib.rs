//! Reliable one-to-many streams and messages over raw Ethernet frames.
//!
//! # A stream from one host to two others
//!
//! ```
//! use ethbcast_transport::sim::{Cable, HostSettings, Network, RandomFaults, Simulation, host_mac};
//! use ethbcast_transport::stream::{Ending, Outlet, Stream};
//! use ethbcast_transport::wire::{EtherType, Guard, Identity, Peer, Rank, StreamId, group_mac};
//! use ethbcast_transport::{Alone, Instant, Tuning};
//!
//! let group = group_mac("example");
//! let peer = |rank| Peer { rank: Rank(rank), mac: host_mac(rank.into()) };
//! let identity = |rank: u16| {
//!     let (stream, ether_type, mac) = (StreamId(1), EtherType::DEFAULT, host_mac(rank.into()));
//!     Identity { session: 7, stream, rank: Rank(rank), mac, ether_type, guard: Guard::Plain }
//! };
//! let machine = |rank| Alone::new(match rank {
//!     0 => {
//!         let outlet = Outlet::Cast { group, listeners: vec![peer(1), peer(2)] };
//!         Stream::origin(identity(0), 1468, &outlet, Tuning::default())
//!     }
//!     _ => Stream::receiver(identity(rank), 1468, peer(0), &Outlet::Lanes(Vec::new()), Tuning::default()),
//! });
//!
//! // Three hosts on a gigabit switch that loses one frame in ten.
//! let settings = HostSettings { groups: vec![group], ..HostSettings::default() };
//! let network = Network::star(3, Cable::GIGABIT, &settings);
//! let mut simulation = Simulation::new(&network, (0..3).map(machine).collect(), RandomFaults::new(1).loss(0.1));
//! let (mut pushed, mut received) = (0, [0; 3]);
//! let outcome = simulation.run(Instant::from_nanos(10_000_000_000), |host, machine, now| {
//!     let stream = &mut machine.part;
//!     let ending = |pushed| if pushed == 99 { Ending::Stream } else { Ending::None };
//!     while host == 0 && pushed < 100 && stream.push(&[7; 1468], ending(pushed)) {
//!         pushed += 1;
//!     }
//!     while let Some((payload, _ending)) = stream.peek() {
//!         received[host] += payload.len();
//!         stream.consume(now);
//!     }
//!     None
//! });
//! assert!(outcome.is_quiet());
//! assert_eq!(received, [0, 146_800, 146_800]);
//! ```
//!
//! On real interfaces the same machines run under [`drive()`] on a `packet::Port`, or, for blocking
//! calls of several threads, in a `packet::Shared`; the feature `packet` (Linux, on by default)
//! brings both.
//!
//! # The layers
//!
//! | | |
//! |---|---|
//! | [`wire`] | the bytes: Ethernet header, own header, acknowledgement |
//! | `feed` | the buffer of a stream: each payload stored once, read through cursors |
//! | [`stream`] | one ordered sequence of frames from one origin, by unicast to children or by one frame to all |
//! | [`messages`] | messages between pairs of hosts: push, pull, acknowledgements |
//! | [`Part`], [`Machine`] | the interface of all of these |
//! | [`Link`], [`drive()`] | the carrier of frames, and the loop that runs a machine on it |
//! | `packet` | the link of a Linux interface: AF_PACKET ring, `sendmmsg`, `poll(2)`, the real clock |
//! | [`sim`] | a switched Ethernet under a virtual clock, with seeded faults: the other driver |
//!
//! A protocol part owns no socket, clock, thread or random source. Time is an argument
//! ([`Instant`], nanoseconds since the driver started), frames are slices.
//!
//! # The order of calls
//!
//! A driver passes input ([`Machine::handle_frame`], [`Machine::handle_timeout`]), lets the
//! application move its data in and out, drains output ([`Machine::poll_transmit`] until `None` or
//! until there is no more room) and then takes the next deadline ([`Machine::poll_timeout`]). `now`
//! never goes backwards. [`drive()`] and [`sim::Simulation::run`] both keep to this order.
//!
//! # Panics
//!
//! No received frame causes a panic: it may be truncated, forged or foreign, and then changes only
//! counters. A call panics if the application breaks a rule stated under "Panics", such as writing
//! to a stream that it has ended.

#![warn(missing_debug_implementations)]

// Modules and names with `#[doc(hidden)]` are for the crates of this workspace, without promise of
// stability.
#[doc(hidden)]
#[macro_use]
pub mod planted;
#[macro_use]
pub mod tuning;

#[doc(hidden)]
mod agenda;
mod arq;
mod drive;
#[doc(hidden)]
pub mod feed;
pub mod link;
#[doc(hidden)]
pub mod lock;
pub mod machine;
pub mod messages;
#[cfg(all(feature = "packet", target_os = "linux"))]
pub mod packet;
mod parity;
pub mod sim;
pub mod stream;
pub mod time;
pub mod wire;

pub use crate::wire::MacAddr;
#[doc(hidden)]
pub use agenda::{Agenda, Retry, TokenBucket};
#[doc(hidden)]
pub use drive::drive;
pub use link::{Link, LinkReading, PassedBytes};
#[doc(hidden)]
pub use machine::AuditError;
pub use machine::{Alone, Deadline, Kept, Machine, Part, SplitFrame, Timer};
pub use time::{Instant, TimeSource};
pub use tuning::{Policy, Subnet, Tuning, TuningError};
