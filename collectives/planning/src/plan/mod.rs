//! Broadcast plans and their planners.
//!
//! A [`Plan`] is a tree over ranks `0..n`. Planners compute it from a topology and a list of
//! members, with integers only and every tie broken by number, so that all hosts derive an equal
//! plan and its digest proves it. [`make`] is the entry point to all of them: `by_rank` has those
//! that ignore switches, `chain`, `binary` and `latency` those that do not. [`blocks`] lists the
//! trees of routes that split the message. [`check`] checks any plan against a topology and shares
//! no code with the planners.

mod best;
mod binary;
mod block_groups;
mod by_rank;
mod chain;
mod check;
mod error;
pub mod file;
mod latency;
mod layers;
mod line;
mod make;
mod speeds;
#[cfg(test)]
mod tests;
mod tree;
mod via;

pub use best::binary_best;
pub use binary::{ALGORITHM_2_RANKS, binary, kary};
pub use block_groups::{BlockGroup, farthest_first, parcels};
pub use by_rank::{block, block_children, block_parent, block_parents, blocks, by_rank};
pub use chain::chain;
pub use check::{
    CableEnd, CableLoad, CheckReport, Fault, LossyCables, Passage, check, check_all, check_message, lossy_cables,
};
pub use error::PlanError;
pub use latency::{completion_time, latency};
pub use make::{Costs, make};
pub use speeds::{Speeds, USUAL, UsualCable};
pub use tree::Plan;
pub use via::{UnknownVia, Via};

/// Shortest segment of a message that has more than one, in bytes: below it a frame is padded, or
/// has no room for the message's end.
pub const MIN_SEGMENT_BYTES: u64 = 64;
