//! Automatic repeat request: what every reliable sender and receiver here decides by evidence.

pub mod bits;
pub mod rtt;
pub mod stamp;
pub mod window;
