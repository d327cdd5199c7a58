//! Fault injection: whole transfers in network namespaces under random faults, checked against
//! every guarantee.
//!
//! A run is a [`Scenario`]. [`play`] brings up a lab, starts the programs, triggers the events,
//! waits for the end, and returns the [`Verdict`]. The program `chaos` plays many.

mod campaign;
mod draw;
mod judge;
mod play;
mod scenario;
mod strike;

pub use campaign::{Campaign, ClassTally, Results};
pub use judge::Verdict;
pub use play::{ChaosStage, Terms, play};
pub use scenario::{Class, Manners, Scenario};
pub use strike::Relay;
