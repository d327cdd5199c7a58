//! Chaos on real frames: whole transfers by the program, in labs, each with one or two troubles
//! drawn from its seed, judged by the promises of every transfer.
//!
//! A run is a [`Scenario`]. [`play`] brings up a lab, starts the programs, triggers the events,
//! waits for the end, and returns the [`Verdict`]. The program `chaos` plays many.

mod attacker;
mod campaign;
mod class;
mod draw;
mod judge;
mod play;
mod receiver;
mod relay;
mod report;
mod scenario;
mod stage;
mod strike;
mod table;

pub use campaign::{Campaign, Results};
pub use class::Class;
pub use judge::Verdict;
pub use play::play;
pub use scenario::Scenario;
pub use stage::{Stage, Terms};
pub use table::Tally;
