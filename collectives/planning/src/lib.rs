//! Topology, plans and their price: arithmetic, values in, values out. No socket, no clock, no random source.

pub mod draw;
mod duration;
pub mod model;
mod natural_order;
pub mod plan;
mod schema;
mod source_error;
pub mod topology;

pub use duration::duration;
pub use natural_order::natural_order;
pub use schema::SchemaProblem;
pub use source_error::SourceError;
