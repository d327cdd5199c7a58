//! Reliable one-to-many streams over raw Ethernet frames.
//!
//! Every protocol part is a state machine without socket, clock, thread or random source ([`Machine`]); two drivers run the
//! same machines: [`packet`] on AF_PACKET rings and the real clock, [`sim`] on a simulated switched Ethernet and a virtual one.

pub mod feed;
pub mod machine;
pub mod messages;
pub mod packet;
pub mod sim;
pub mod stream;
pub mod time;
mod timing;
pub mod tuning;
pub mod wire;

pub use machine::{Deadline, Machine, Timer};
pub use pnet::util::MacAddr;
pub use time::Instant;
pub use tuning::{Policy, Tuning};
