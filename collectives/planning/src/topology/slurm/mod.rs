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
mod yaml;

pub use super::error::SlurmProblem;
pub use addr::{Address, from_topology_addrs};
pub use conf::{looks_like_topology_conf, parse};
pub use yaml::{looks_like_topology_yaml, parse_yaml};

#[cfg(test)]
mod tests;
