//! The arguments of `ethbcast simulate`.

use super::{decimal, number, whole};
use clap::Args;
use std::path::PathBuf;

/// `ethbcast simulate`.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// Topology file (TOML or Slurm's), directory of lldpcli outputs, or test bed (fig9-1 to fig9-5).
    #[arg(long, value_name = "FILE", required_unless_present = "hosts", conflicts_with = "hosts")]
    pub topology: Option<PathBuf>,
    /// Simulate N hosts n0, n1, … on one switch, the root included.
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub hosts: Option<usize>,
    /// Sending host. Default: that of the plan file, or the first host of the topology.
    #[arg(long, value_name = "HOST")]
    pub root: Option<String>,
    /// Size of the data, such as 1500, 64K or 16M.
    #[arg(long, value_name = "BYTES", value_parser = ethbcast_planning::parse_size)]
    pub size: u64,
    /// Broadcast algorithm: auto, all (compare all), or another value of `send --via`.
    #[arg(long, value_name = "VIA", default_value = "auto", conflicts_with = "plan")]
    pub via: String,
    /// Run a plan saved by `ethbcast plan --out`.
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Rate of cables that have none in the topology, such as 100mbit. Default: 1gbit, or the rate of the fastest host
    /// if the topology has the rates of all hosts.
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,
    /// MTU of every host.
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = number(0..=u16::MAX))]
    pub mtu: u16,
    /// Fraction of frames lost at every host, such as 0.01.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0, value_parser = decimal)]
    pub loss: f64,
    /// Propagation delay of a cable, in microseconds. Default: 0.5.
    #[arg(long, value_name = "US", value_parser = decimal)]
    pub delay: Option<f64>,
    /// Seed of the random losses. The same seed gives the same run.
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = whole::<u64>)]
    pub seed: u64,
    /// Simulate the cables of `ethbcast lab`: token buckets that count frame bytes only, no delay.
    #[arg(long)]
    pub lab: bool,
    /// Network costs measured by `ethbcast probe --out`, for the prediction and --via auto. Processor times in it also
    /// hold for the simulated hosts. Default: the costs of the simulated network.
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// Process each frame as it arrives. Without it, hosts sleep up to 1 ms while frames arrive densely, as the driver
    /// does to save wake-ups.
    #[arg(long)]
    pub no_naps: bool,
    /// Print the model's prediction next to the simulation.
    #[arg(long)]
    pub compare: bool,
    /// Print one JSON object, with the load of every cable.
    #[arg(long)]
    pub json: bool,
}
