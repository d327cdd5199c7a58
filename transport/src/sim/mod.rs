//! A switched Ethernet under a virtual clock, with seeded faults: the second driver of every [`Machine`](crate::Machine).
//!
//! A [`Network`] describes switches, hosts and cables; a [`Simulation`] puts one machine on each host and runs until nothing
//! is left to do. The same seed gives the same run, byte for byte.
//!
//! **What is modelled.** Cables with rate and delay (or token buckets), full duplex; store-and-forward switches with finite port queues, MAC
//! learning, flooding and storm control; network cards with a finite transmit ring (the machines' back-pressure) and a finite
//! receive ring, drained by a process that takes time to wake up and for each frame; padding of short frames to 60 bytes; hosts that pause or
//! crash, cables that are cut. **What is not:** the time a switch needs to decide, ageing of learnt addresses, spanning tree
//! (the switches must form a tree), pause frames, checksums on the wire (a corrupted frame is delivered).
//!
//! Files, from the outside in: `network` and `settings` (description), `run` with `serve`, `deliver` and `control` (the loop),
//! `faults`, `host`, `fabric` (everything between two hosts) with `switch` and `wire`, then `event`, `frame`, `random`, `stats`.

mod event;
mod fabric;
mod faults;
mod frame;
mod host;
mod last_hop;
mod network;
mod outcome;
mod random;
mod run;
mod settings;
mod stats;
mod switch;
mod wire;
mod wishes;

#[cfg(test)]
mod tests;

pub use faults::{Delivery, Fate, Faults, NoFaults, RandomFaults, Script};
pub use network::{CableId, Network, NetworkError, SwitchId};
pub use outcome::Outcome;
pub use random::Random;
pub use run::Simulation;
pub use settings::{Cable, HostSettings, QueueLimit, StormControl, SwitchSettings, host_mac};
pub use stats::{CableStats, DirectionStats, Drops, HostStats, Stats};
