//! Drawing of network topologies and broadcast trees as text, DOT and SVG.
//!
//! All three hang the tree of switches from its middle. With a plan, each host shows its receivers
//! in sending order, and each cable the number of flows in either direction: the loads that
//! [`check`](crate::plan::check()) counted.

pub mod canvas;
mod overlay;
mod shapes;
mod svg;
mod text;

pub use overlay::Overlay;
pub use overlay::levels;
pub use svg::{svg, svg_in_page, svg_legend};
pub use text::dot;
pub use text::text;

#[cfg(test)]
mod tests;
