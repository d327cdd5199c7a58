//! Shared helpers of the benches: of `compare` (tools against each other), of `frames` (drivers
//! against each other), of those that repeat the papers' measurements with `ethbcast perf`
//! (`algorithms`, `prediction`, `auto`, and `mpi` beside Open MPI), and of `figures`, the papers'
//! in the simulator.
//!
//! All but the simulated ones run in labs of network namespaces (`ethbcast-lab`), so they need root
//! and leave nothing behind.

#![expect(missing_docs, reason = "nobody but this tree uses it: names that say it need no comment")]

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
