//! Calls that all ranks make together.
//!
//! Each is a value: `begin` starts it, `advance` moves it on after each round of the driver until
//! it is [`Done`](CallProgress::Done), `abandon` gives it up. There is no thread, and bytes are copied
//! only between the caller's slice and a feed or message. The caller's slices are given to each
//! `advance` and must stay the same.

mod barrier;
mod blocks;
mod broadcast;
mod call;
mod mail;
mod patience;
mod relay;
mod shares;
mod transfer;

pub use barrier::Barrier;
pub use blocks::{Allgather, Gather, Scatter};
pub use broadcast::Broadcast;
pub use call::{Call, CallProgress};
pub use patience::Patience;

pub(super) use call::CallWork;
