//! Shared helpers of the tests: whole sessions under the simulator, and the built program on the hosts of a lab.

pub mod session;
pub mod tool;
