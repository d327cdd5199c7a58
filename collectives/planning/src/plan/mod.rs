//! Who sends to whom, and in what order: planning is arithmetic.
//!
//! A [`Plan`] is a tree over ranks `0..n`. Planners turn a topology and a list of members into one, with integers only and
//! every tie broken by number, so that all hosts derive the same plan and its digest proves it. [`make`] is the one door to
//! all of them; there is one file per planner. [`blocks`] lists the trees of ways that split the message.
//! [`check`] judges any plan against a topology and shares no code with the planners.

mod binary;
mod binomial;
mod blocks;
mod cast;
mod chain;
mod check;
mod error;
pub mod file;
mod flat;
mod kary;
mod latency;
mod layers;
mod line;
mod make;
mod tree;
mod unaware;
mod via;

pub use binary::{ALGORITHM_2_RANKS, binary};
pub use binomial::{binomial, recursive_doubling, scatter_allgather};
pub use blocks::{block, block_parents, blocks};
pub use cast::cast;
pub use chain::chain;
pub use check::{CableEnd, CableLoad, Fault, Report, check, check_all};
pub use error::PlanError;
pub use flat::flat;
pub use kary::kary;
pub use latency::{completion_time, latency};
pub use make::{Costs, make};
pub use tree::Plan;
pub use unaware::{binary_unaware, chain_unaware};
pub use via::{UnknownVia, Via};
