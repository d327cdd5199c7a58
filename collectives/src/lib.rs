//! One-to-many transfers (sessions), MPI-like collectives (communicators) and network measurements
//! on one Ethernet.
//!
//! Every protocol part here is a state machine without socket, clock, thread or random source, like
//! the transport's. Only the `live` modules open a port and drive one; programs call those. The
//! machines beside them also run in a simulated network.
//!
//! # Sessions
//!
//! One host sends its bytes to all others: see [`session`].
//!
//! # Communicators
//!
//! A fixed number of ranks call each other: broadcast, barrier, scatter, gather, allgather, and
//! messages between any two. On real hosts [`Communicator::join`](communicator::Communicator::join)
//! is all it takes:
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
//! The example drives a [`Member`](communicator::Member), a machine that any driver can run: four
//! of them broadcast over a simulated switch that loses one frame in a hundred. The program is
//! called after each step; a collective is a value that it begins once and advances until it is
//! done:
//!
//! ```
//! use ethbcast_collectives::communicator::{Broadcast, CallProgress, Config, Member, Station};
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
//!         assert!(matches!(progress, Ok(CallProgress::Done | CallProgress::Waiting)));
//!     }
//!     None
//! });
//! assert_eq!(buffers, [*b"hello"; 4]);
//! ```
//!
//! # Other modules
//!
//! [`keys`] authenticate all frames of a session. Without a page here are `measure`, which measures
//! the network costs from which the planner chooses routes, `census`, a query to which every
//! receiver replies, and `membership`, which sessions and communicators share: a host's identity,
//! presence of members, control messages, opening of a port. The `live` folders of `membership`,
//! `session` and `communicator` are the only ones that use a socket.

/// Sessions and communicators in async programs.
///
/// Every call blocks its thread, a session's until the session is over, and needs no runtime. An
/// async program makes it on a thread that may block, and ends a session by a
/// [`Cancel`](session::Cancel) handle if its own task is dropped:
///
/// ```ignore
/// use ethbcast_collectives::session::{Cancel, Error, SendOptions, SendReport, Session};
/// use std::fs::File;
///
/// struct CancelOnDrop(Cancel);
///
/// impl Drop for CancelOnDrop {
///     fn drop(&mut self) {
///         self.0.cancel();
///     }
/// }
///
/// async fn send(file: File) -> Result<SendReport, Error> {
///     let options = SendOptions::new().receivers(7);
///     let _guard = CancelOnDrop(options.run.cancel.clone());
///     let call = move || Session::send_file("images", file, &options);
///     tokio::task::spawn_blocking(call).await.expect("the call does not panic")
/// }
/// ```
///
/// Progress comes by [`on_progress`](session::RunOptions::on_progress), on the thread of the call:
/// pass it on by a channel. A [`Communicator`](communicator::Communicator) is shared in an `Arc`,
/// with each call on such a thread; its collectives take turns. A program with an event loop of its
/// own drives the machines themselves, such as [`Root`](session::Root), and needs no thread.
pub mod async_programs {}

// What is hidden here and below is for the crates of this workspace, without a promise of
// stability.
#[doc(hidden)]
pub mod census;
pub mod communicator;
mod error_kind;
#[doc(hidden)]
pub mod inspect;
pub mod keys;
#[doc(hidden)]
pub mod measure;
#[doc(hidden)]
pub mod membership;
#[doc(hidden)]
mod named_options;
mod preset;
pub mod session;

pub use error_kind::ErrorKind;
#[doc(hidden)]
pub use ethbcast_transport::lock;
pub use ethbcast_transport::packet::{OptionName, spell_options};
#[doc(hidden)]
pub use named_options::{NamedOptions, OptionError};
pub use preset::{Preset, Route, UnknownPreset};
