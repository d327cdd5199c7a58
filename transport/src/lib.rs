//! Reliable one-to-many streams over raw Ethernet frames.
//!
//! Every protocol part is a state machine without socket, clock, thread or random source ([`Machine`]); two drivers run the
//! same machines: [`packet`] on AF_PACKET rings and the real clock, [`sim`] on a simulated switched Ethernet and a virtual one.

#[macro_use]
mod summed;

mod agenda;
mod arq;
mod audit;
pub mod feed;
pub mod machine;
pub mod messages;
#[cfg(all(feature = "packet", target_os = "linux"))]
pub mod packet;
mod part;
pub mod sim;
pub mod stream;
pub mod time;
pub mod tuning;
pub mod wire;

pub use crate::wire::MacAddr;
pub use agenda::Agenda;
pub use audit::AuditError;
pub use machine::{Deadline, Machine, Timer};
pub use part::{Alone, Part};
pub use time::Instant;
pub use tuning::{Policy, Tuning, TuningError};
