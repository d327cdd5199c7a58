//! What Slurm knows of the network: its `topology.conf` (the tree plugin) and the addresses it gives to jobs.
//!
//! [`parse`] reads the file. Where nobody may read that file, every process of a job still finds the path from the top
//! switch to its own host in `SLURM_TOPOLOGY_ADDR`: collected from all hosts, [`from_topology_addrs`] makes a topology
//! of them. The formats are those of topology.conf(5) and sbatch(1).

mod addr;
mod conf;
mod lines;

pub use super::error::SlurmProblem;
pub use addr::{Address, from_topology_addrs};
pub use conf::{looks_like_topology_conf, parse};

#[cfg(test)]
mod tests;
