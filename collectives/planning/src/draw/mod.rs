//! Topologies as a text tree, as DOT and as SVG, alone or with a plan laid over them.
//!
//! All three hang the tree of switches from its middle. With a plan, each host shows whom it sends to, in what order,
//! and each cable how many flows it carries in either direction: the loads that [`check`](crate::plan::check())
//! counted.

mod dot;
mod hung;
mod overlay;
mod svg;
mod text;

pub use dot::dot;
pub use hung::levels;
pub use overlay::Overlay;
pub use svg::{svg, svg_in_page, svg_legend};
pub use text::text;

#[cfg(test)]
mod tests;
