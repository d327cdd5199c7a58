//! Topology from Slurm: its `topology.conf` or `topology.yaml` (the tree plugin), and the addresses
//! it gives to jobs.
//!
//! [`parse`] and [`parse_yaml`] read the files. If these are not readable, every process of a job
//! still finds the path from the top switch to its own host in `SLURM_TOPOLOGY_ADDR`;
//! [`from_topology_addrs`] makes a topology from those of all hosts. The formats are those of
//! topology.conf(5), topology.yaml(5) and sbatch(1).

mod addr;
mod conf;
mod lines;
#[cfg(feature = "slurm")]
mod yaml;

pub use super::error::SlurmProblem;
pub use addr::{Address, from_topology_addrs};
pub use conf::{looks_like_topology_conf, looks_like_topology_yaml, parse};
#[cfg(feature = "slurm")]
pub use yaml::parse_yaml;

/// Refuses a `topology.yaml`: this build has no YAML reader.
///
/// # Errors
/// Always.
#[cfg(not(feature = "slurm"))]
pub fn parse_yaml(_: &str, source_name: &str) -> Result<super::Imported, super::TopologyError> {
    let text = "this program is built without the feature `slurm`, which reads YAML".to_owned();
    Err(super::TopologyError::at(1, SlurmProblem::Yaml(text)).named(source_name))
}

#[cfg(test)]
mod tests;
