//! Small worlds, explored to the last state (bounded model checking): the real machines of a few
//! hosts, a few frames between them, and all events: frames arrive, are lost or repeated, time
//! passes, a host dies.
//!
//! A [`World`] consists of [`Host`]s. [`explore`] visits its states breadth first, checks each, and
//! follows each to its end without further faults.
//!
//! A state is the `Debug` output of each machine, but for counters on which no decision depends,
//! the ordered frames in flight between each pair of hosts, and the time. Frames take no time
//! unless a timer fires first.

pub mod ack_tree;
mod catalogue;
mod ends;
mod event;
mod explore;
mod fingerprint;
mod host;
mod locals;
pub mod member;
mod prints;
mod replay;
pub mod session;
mod shared;
mod state;
mod world;

pub use catalogue::{Named, WORLDS};
pub use event::{Event, parse_events};
pub use explore::{Bounds, Explored, Violation, explore};
pub use host::{Fate, Host};
pub use replay::replay;
pub use shared::Shared;
pub use world::World;
