//! Topologies: the switch of each host, and the cables between switches.
//!
//! A [`Topology`] is a tree of switches with every host on exactly one of them (Patarasuk 2008 §2:
//! switched Ethernet forwards along a spanning tree, so the path between two hosts is unique). A
//! value of this type is valid by construction: no loop, no island, no name twice. It comes from a
//! file ([`Topology::parse`]), from a list of hosts ([`Topology::single_switch`]), from other
//! programs' data ([`slurm`], [`lldp`]), or is one of the papers' test beds
//! ([`Topology::builtin`]).

#[cfg(test)]
pub(crate) mod arbitrary;
mod build;
mod builtin;
pub mod discovery;
mod draft;
mod error;
mod file;
pub mod lldp;
pub mod nodeset;
mod ranks;
pub mod slurm;
mod spanning;
mod tree;
mod walk;

pub use builtin::BUILTIN_NAMES;
pub use error::{TopologyError, TopologyProblem};
pub use ranks::{Place, Uplink};
pub use spanning::ASSUMED_RATE_BITS_PER_SECOND;
pub use tree::{Imported, Topology};
pub(crate) use walk::Walk;
