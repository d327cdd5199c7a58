//! Prediction of a broadcast's time: the extended parametrised LogP model (Patarasuk 2008 §4.2).
//!
//! [`Calibration`] holds the costs of the network, [`Shape`] the relevant properties of a plan, and
//! `predict` combines the two. [`best_segment`] finds the cheapest segment, [`choose`] the
//! cheapest plan. The functions use no clock and no random source, and ties are broken by order, so
//! that all hosts get equal results.
//!
//! Predictions are too low by the costs that the model omits: acknowledgements' share of a link, a
//! message's beginning and end (announcing, verifying), and, if not measured, hosts that cannot
//! keep up with the link.

mod calibration;
mod choose;
#[doc(hidden)]
mod collective;
#[doc(hidden)]
mod predict;
#[doc(hidden)]
mod shape;

pub use calibration::{Broadcast, Calibration, CalibrationError, CalibrationProblem, Point};
#[doc(hidden)]
pub use calibration::{HostCost, Processing, WayTimes};
pub use choose::{ASSUMED_SIZE_BYTES, Choice, Quote, Situation, choose};
#[doc(hidden)]
pub use choose::{
    Estimate, Priced, SlowCable, best, candidates, choose_among, competing_seconds, given, price,
};
#[doc(hidden)]
pub use collective::{Allgather, allgather, scatter};
#[doc(hidden)]
pub use predict::{Job, nap_ns, predict};
#[doc(hidden)]
pub use predict::{MAX_ATOMIC_SEGMENT_FRAMES, best_segment};
#[doc(hidden)]
pub use shape::{BlockRound, FarPath, Shape, Slow};

#[cfg(test)]
mod tests;
