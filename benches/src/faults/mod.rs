//! Whole transfers with a trouble in each: what is done to which host at which moment, and what came of it.

mod cell;
mod cells;
mod judged;
mod moment;
mod play;
mod trouble;

pub use cell::{Cell, Promise, Terms};
pub use cells::{all, undisturbed};
pub use judged::{Judged, Summary};
pub use play::{Stage, play};
