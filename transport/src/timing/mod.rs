//! What every reliable sender needs to know of time: stamps that tell transmissions apart, and how long to wait for an answer.

pub mod rtt;
pub mod stamp;
