//! Shared helpers of the benches: of `compare` (tools against each other), of `frames` (ways to move frames), and of
//! those that repeat the papers' measurements with `ethbcast perf` (`algorithms`, `prediction`, `auto`), one of them
//! beside Open MPI (`mpi`); of `figures`, the papers' in the simulator.
//!
//! All of these run in labs of network namespaces (`ethbcast-lab`), so they need root and leave nothing behind.

pub mod bed;
pub mod drivers;
pub mod ends;
pub mod faults;
pub mod figures;
pub mod messages;
pub mod mpi;
pub mod papers;
pub mod perf;
pub mod results;
pub mod segments;
pub mod shapes;
pub mod units;

pub use ethbcast_bench::{chart, cluster, interrupt, payload, program, running, table, times, tools, transfer};
