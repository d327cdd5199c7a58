//! Shared helpers of the tests: whole sessions under the simulator.

pub mod session;
