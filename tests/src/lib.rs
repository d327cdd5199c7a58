//! Shared helpers of the tests: whole sessions and communicators under the simulator, and the built program on the hosts of a lab.

pub mod communicator;
pub mod session;
pub mod tool;
