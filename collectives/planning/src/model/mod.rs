//! Predicted time of a plan: the extended parametrised LogP model (Patarasuk 2008 §4.2).
//!
//! [`Calibration`] holds the costs of the network, [`Shape`] the relevant properties of a plan, and
//! [`predict`] combines the two. [`best_segment`] finds the cheapest segment, [`choose`] the
//! cheapest plan. The functions use no clock and no random source, and ties are broken by order, so
//! that all hosts get equal results.
//!
//! Predictions are too low by the costs that the model omits: acknowledgements' share of a link, a
//! message's beginning and end (announcing, verifying), and, if not measured, hosts that cannot
//! keep up with the link.

mod calibration;
mod choose;
mod collective;
mod predict;
mod segment;
mod shape;

pub use calibration::{Broadcast, Calibration, CalibrationError, CalibrationProblem, HostCost, Point, Processing};
pub use choose::{
    ASSUMED_SIZE_BYTES, Choice, Estimate, Priced, Quote, Situation, SlowCable, best, candidates, choose, choose_among,
    competing_seconds, given, price,
};
pub use collective::{Allgather, allgather, scatter};
pub use predict::nap_ns;
pub use predict::{Job, predict};
pub use segment::{MAX_ATOMIC_SEGMENT_FRAMES, best_segment};
pub use shape::{BlockRound, Shape, Slow};

#[cfg(test)]
mod tests;
