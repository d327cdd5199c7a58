//! The figures of the papers in the simulator: their test beds at their rates, and hosts as fast as
//! theirs.
//!
//! A lab of 32 hosts on one machine cannot send at 100 Mbit/s, let alone at 1000. The simulator
//! runs the same engine on a virtual clock, and repeats its results exactly.

mod figure;
mod grids;
mod patarasuk;
mod processors;
mod runs;
mod said;

pub use figure::{Drawn, Figure, Line, Panel};
pub use patarasuk::{actual, patarasuk};
pub use processors::processors;
pub use runs::{Run, Runs, Site};
pub use said::Said;
