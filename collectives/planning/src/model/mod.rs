//! What a plan costs: the extended parametrised LogP model (Patarasuk 2008 §4.2).
//!
//! [`Calibration`] holds what the network costs, [`Shape`] what a plan makes of it, [`predict`] multiplies the two,
//! [`best_segment`] looks for the segment that costs least, [`choose`] for the plan. Values in, values out: no clock,
//! no random source, ties broken by order, so that all hosts that ask the same get the same answer.
//!
//! What the model leaves out, and predictions are therefore too low by: what acknowledgements take of a link, and a
//! message's beginning and end (announcing, verifying); and, where nobody measured them, hosts that cannot keep up with
//! the link.

mod cables;
mod calibration;
mod choose;
mod collective;
mod nap;
mod parity;
mod predict;
mod segment;
mod shape;

pub use calibration::{Broadcast, Calibration, CalibrationError, CalibrationProblem, HostCost, Point, Processing};
pub use choose::{
    ASSUMED_SIZE_BYTES, Choice, Estimate, Priced, Situation, SlowCable, candidates, choose, competing_seconds, given,
    price,
};
pub use collective::{Allgather, allgather, scatter};
pub use nap::nap_ns;
pub use predict::{Job, predict};
pub use segment::{MAX_ATOMIC_SEGMENT_FRAMES, best_segment};
pub use shape::{BlockRound, Shape, Slow};

#[cfg(test)]
mod tests;
