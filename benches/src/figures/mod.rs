//! The figures of the papers in the simulator: their test beds at their rates, hosts that take what theirs took.
//!
//! A lab of 32 hosts on one machine cannot send at 100 Mbit/s, let alone at 1000; the simulator runs the same engine
//! on a virtual clock, the same way every time.

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
