//! Groups of hosts on one Ethernet that move the same bytes: sessions, communicators and measurements on the streams of
//! [`ethbcast_transport`].
//!
//! Every protocol part here is a state machine without socket, clock, thread or random source, as the transport's are;
//! only the `live` modules open a port and drive one. What a program calls stands in them; what runs in a simulated
//! network stands beside them.
//!
//! # Sessions
//!
//! One host has bytes, the others are to have them: see [`session`].
//!
//! # Communicators
//!
//! A fixed number of ranks call each other: broadcast, barrier, scatter, gather, allgather, and messages between any
//! two. On real hosts [`Communicator::join`](communicator::Communicator::join) is all it takes:
//!
//! ```no_run
//! use ethbcast_collectives::communicator::Communicator;
//!
//! # fn main() -> Result<(), ethbcast_collectives::communicator::Error> {
//! let ranks = Communicator::join("demo", 4)?;
//! let mut greeting = if ranks.rank() == 0 { *b"hello" } else { [0; 5] };
//! ranks.broadcast(0, &mut greeting)?;
//! ranks.barrier()?;
//! # Ok(())
//! # }
//! ```
//!
//! Behind it stands a [`Member`](communicator::Member), a machine that any driver can run. Here four of them broadcast
//! over a simulated switch that loses one frame in a hundred. The program has a turn whenever something may have
//! changed; a collective is a value that it begins once and advances until it is done:
//!
//! ```
//! use ethbcast_collectives::communicator::{Broadcast, Config, Member, Progress};
//! use ethbcast_collectives::membership::Station;
//! use ethbcast_transport::Instant;
//! use ethbcast_transport::sim::{Cable, HostSettings, Network, RandomFaults, Simulation, host_mac};
//! use ethbcast_transport::wire::{Rank, group_mac};
//! use std::time::Duration;
//!
//! let settings = HostSettings { groups: vec![group_mac("demo")], ..HostSettings::default() };
//! let network = Network::star(4, Cable::GIGABIT, &settings);
//! let member = |host: usize| {
//!     let station = Station::new("demo", &format!("n{host}"), host_mac(host), 1500);
//!     Member::begin(Instant::START, Config::new(station, 4, host as u64)).expect("names and sizes that can be")
//! };
//! let members = (0..4).map(member).collect();
//! let mut simulation = Simulation::new(&network, members, RandomFaults::new(1).loss(0.01));
//!
//! let mut buffers = [*b"hello", [0; 5], [0; 5], [0; 5]];
//! let mut calls: [Option<Broadcast>; 4] = Default::default();
//! simulation.run(Instant::START + Duration::from_secs(1), |host, member, now| {
//!     if member.joined() == Ok(true) {
//!         let call = calls[host].get_or_insert_with(|| Broadcast::begin(member, now, Rank::ROOT, 5).expect("room"));
//!         let progress = call.advance(member, now, &mut buffers[host]);
//!         assert!(matches!(progress, Ok(Progress::Done | Progress::Waiting)));
//!     }
//!     None
//! });
//! assert_eq!(buffers, [*b"hello"; 4]);
//! ```
//!
//! # Measuring
//!
//! What the network costs, for the planner that chooses how bytes travel: see [`measure`].
//!
//! # Who listens
//!
//! Any receiver says so when it is asked: see [`census`].
//!
//! # The floor
//!
//! [`membership`] is what sessions and communicators share: who a host is, who is there, how control messages are
//! written, how a port is opened. Its [`live`](membership::live) folder and those of `session` and `communicator` are
//! the only ones that know a socket.

pub mod census;
pub mod communicator;
mod error_kind;
pub mod inspect;
pub mod measure;
pub mod membership;
mod named_options;
mod preset;
mod route;
pub mod session;

pub use error_kind::ErrorKind;
pub use named_options::{NamedOptions, OptionError};
pub use preset::{Preset, UnknownPreset};
pub use route::Route;
