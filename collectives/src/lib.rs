//! Topology, plans and groups: who sends to whom, in which order, and who is there.

pub mod communicator;
pub mod draw;
pub mod group;
pub mod host;
pub mod model;
mod natural_order;
pub mod plan;
mod schema;
pub mod topology;
