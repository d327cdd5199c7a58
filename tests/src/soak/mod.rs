//! Soak tests: many sessions in a row, and collectives for minutes, on the hosts of a lab and in
//! one process, watched for growth.

mod sessions;
mod traffic;
mod usage;

pub use sessions::run_sessions;
pub use traffic::run_traffic;
pub use usage::{Course, Usage};

/// Number of hosts; the first of them sends.
pub const HOSTS: usize = 4;
