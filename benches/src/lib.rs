//! Shared helpers of the benches: `compare` (tools against each other) and `frames` (ways to move frames).
//!
//! Both run in a lab of network namespaces (`ethbcast-lab`), so they need root and leave nothing behind.

pub mod chart;
pub mod cluster;
pub mod ends;
pub mod interrupt;
pub mod payload;
pub mod table;
pub mod tools;
pub mod transfer;
