//! Shared helpers of the tests: whole sessions and communicators under the simulator, and processes on the hosts of a
//! lab.

pub mod communicator;
pub mod lab;
pub mod session;
pub mod worlds;
