//! Small worlds, explored to the last state: the real machines of a few hosts, a few frames between them, and
//! everything that can happen: frames arrive, are lost or repeated, time passes, a host dies.
//!
//! A [`World`] is made of [`Host`]s; [`explore`] goes through its states breadth first, checks each, and follows each
//! to the end it comes to when nothing goes wrong any more.
//!
//! **What a state is.** All that `Debug` shows of each machine but for counters that no decision depends on, the frames
//! on each way from one host to another in their order, and the time. Frames take no time unless a timer falls due
//! first.

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
