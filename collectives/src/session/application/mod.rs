//! The application's side of a transfer: where the sender's bytes come from and the receiver's go.
//! This module has no sockets, threads or clock.
//!
//! [`Sending`] and [`Receiving`] do the work of every application in its turn, between input and
//! output of the machine. They push data while there is room and end the stream with its digest, or
//! take the data that has arrived while there is room and report the outcome. A simulation runs
//! them as [`Participant`]s:
//!
//! ```
//! use ethbcast_collectives::session::application::{Collected, MemoryContent, Participant};
//! use ethbcast_collectives::session::{Outcome, Receiver, ReceiverConfig, Root, RootConfig, Station, Wanted};
//! use ethbcast_transport::sim::{Cable, HostSettings, Network, NoFaults, Simulation, host_mac};
//! use ethbcast_transport::{Instant, wire::group_mac};
//! use std::time::Duration;
//!
//! let station = |host: usize| Station::new("files", &format!("n{host}"), host_mac(host), 1500);
//! let config = RootConfig { wanted: Wanted::exactly(2), probe: false, ..RootConfig::new(station(0), 1, "greeting") };
//! let root = Root::new(Instant::START, config);
//! let mut hosts = vec![Participant::root(root, MemoryContent::new(b"the same bytes everywhere"))];
//! for host in [1, 2] {
//!     let receiver = Receiver::new(Instant::START, ReceiverConfig::new(station(host), host as u64));
//!     hosts.push(Participant::receiver(receiver, Collected::default()));
//! }
//! let card = HostSettings { groups: vec![group_mac("files")], ..HostSettings::default() };
//! let network = Network::star(3, Cable::new(1_000_000_000, Duration::from_micros(1)), &card);
//! let mut simulation = Simulation::new(&network, hosts, NoFaults);
//! let end = simulation.run(Instant::START + Duration::from_secs(10), |_, host, now| host.turn(now));
//! assert!(end.is_quiet());
//! for host in &simulation.machines()[1..] {
//!     let receiving = host.receiving().expect("all but the root receive");
//!     assert_eq!(receiving.verdict().map(|verdict| verdict.outcome), Some(Outcome::Delivered));
//!     assert_eq!(receiving.sink().bytes(), b"the same bytes everywhere");
//! }
//! ```

mod participant;
mod receiving;
mod sending;
#[cfg(test)]
mod tests;

pub use participant::{Collected, MemoryContent, Participant};
pub use receiving::{Receiving, Sink};
pub use sending::{Again, Mismatch, Next, Sending, Source, Tally};
