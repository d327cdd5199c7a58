//! Topology, plans and groups: who sends to whom, in which order, and who is there.

pub mod group;
pub mod plan;
pub mod topology;
