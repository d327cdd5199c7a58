//! Network simulator: a switched Ethernet under a virtual clock, with seeded faults.
//!
//! A [`Network`] describes switches, hosts and cables; a [`Simulation`] puts one machine on each
//! host and runs until nothing is left to do. A run is reproduced by its seed, byte for byte.
//!
//! **Modelled:** cables with rate and delay (or token buckets), full duplex; store-and-forward
//! switches with finite port queues or a shared buffer, MAC learning, flooding, storm control and
//! pause frames; network cards with a finite transmit ring (the machines' back-pressure) and a
//! finite receive ring, drained by a process that takes time to wake up and for each frame; kernels
//! that have no room at times; padding of short frames to 60 bytes; hosts that pause, crash and
//! come back, timers with slack, cables that are cut. **Not modelled:** the time a switch needs to
//! decide, ageing of learnt addresses, spanning tree (the switches must form a tree), checksums on
//! the wire (a corrupted frame is delivered).
//!
//! A custom machine, which replies to every frame of its kind, on two hosts:
//!
//! ```
//! use ethbcast_transport::sim::{Cable, HostSettings, Network, NoFaults, Simulation, host_mac};
//! use ethbcast_transport::wire::{EtherType, Frame, Guard, Identity, Kind, MacAddr, Rank, StreamId};
//! use ethbcast_transport::{Alone, Deadline, Instant, Part};
//!
//! const PING: Kind = Kind(200);
//!
//! struct Player { identity: Identity, next: Option<(MacAddr, u64)>, balls: u64 }
//!
//! impl Part for Player {
//!     fn handle_frame(&mut self, _now: Instant, frame: &Frame<'_>) {
//!         if frame.header.kind == PING {
//!             self.balls += 1;
//!             self.next = (frame.header.sequence > 0).then(|| (frame.source, frame.header.sequence - 1));
//!         }
//!     }
//!     fn handle_timeout(&mut self, _now: Instant) {}
//!     fn poll_transmit(&mut self, _now: Instant, buffer: &mut [u8]) -> Option<usize> {
//!         let (to, sequence) = self.next.take()?;
//!         let mut header = self.identity.header(PING);
//!         header.sequence = sequence;
//!         Some(self.identity.write(buffer, to, &header, b"ball"))
//!     }
//!     fn poll_timeout(&self, _now: Instant) -> Option<Deadline> { None }
//! }
//!
//! let player = |host: usize| {
//!     let (rank, mac) = (Rank(host as u16), host_mac(host));
//!     let (stream, ether_type, guard) = (StreamId(0), EtherType::DEFAULT, Guard::Plain);
//!     let identity = Identity { session: 1, stream, rank, mac, ether_type, guard };
//!     Alone::new(Player { identity, next: (host == 0).then(|| (host_mac(1), 9)), balls: 0 })
//! };
//! let network = Network::star(2, Cable::GIGABIT, &HostSettings::default());
//! let mut simulation = Simulation::new(&network, vec![player(0), player(1)], NoFaults);
//! let outcome = simulation.run(Instant::from_nanos(1_000_000), |_host, _machine, _now| None);
//! assert!(outcome.is_quiet());
//! assert_eq!(simulation.machines().iter().map(|machine| machine.part.balls).sum::<u64>(), 10);
//! ```
//!
//! Files, from the outside in: `network` and `settings` (description), `run` (the simulation and
//! its loop), `host` (its machine, its card, its process and the last hop to it),
//! `faults`, `fabric` (everything between two hosts) with `switch` and `wire`, then
//! `event`, `frame`, `stats`.

mod event;
mod fabric;
mod faults;
mod host;
mod network;
mod run;
mod stats;
mod wire;

#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use faults::Random;
pub use faults::{Delivery, Departure, Fate, Faults, NoFaults, RandomFaults, Sending, script};
pub use network::{
    Cable, CableId, HostSettings, Network, NetworkError, PauseFrames, QueueLimit, StormControl,
    SwitchId, SwitchSettings, host_mac,
};
pub use run::Simulation;
pub use stats::{CableStats, DirectionStats, Drops, HostStats, Outcome, Stats};
