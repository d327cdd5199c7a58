//! The arguments of `ethbcast simulate`.

use clap::Args;
use std::path::PathBuf;

/// `ethbcast simulate`.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// The cluster: a topology file (TOML, or Slurm's), a folder of lldpcli outputs, or a test bed
    /// (fig9-1 … fig9-5).
    #[arg(long, value_name = "FILE", required_unless_present = "hosts", conflicts_with = "hosts")]
    pub topology: Option<PathBuf>,
    /// So many hosts n0, n1, … on one switch, the root included.
    #[arg(long, value_name = "N")]
    pub hosts: Option<usize>,
    /// The host that has the bytes; without it, that of the plan file, or the first of the topology.
    #[arg(long, value_name = "HOST")]
    pub root: Option<String>,
    /// Bytes to send, such as 1500, 64K or 16M.
    #[arg(long, value_name = "BYTES", value_parser = ethbcast_planning::parse_size)]
    pub size: u64,
    /// How the bytes travel: auto, a way as `send` knows it, or all to compare all ways.
    #[arg(long, value_name = "VIA", default_value = "auto", conflicts_with = "plan")]
    pub via: String,
    /// Send along this plan, as `ethbcast plan --out` saved it.
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Rate of every cable of which the topology says nothing, such as 100mbit; without it 1gbit, or that of the
    /// fastest host if the topology knows all hosts' rates.
    #[arg(long)]
    pub rate: Option<String>,
    /// MTU of every host, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    pub mtu: u16,
    /// Share of frames lost at every host, such as 0.01.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub loss: f64,
    /// The time a bit needs from one end of a cable to the other, in microseconds; 0.5 without it.
    #[arg(long, value_name = "US")]
    pub delay: Option<f64>,
    /// Decides which frames are lost; the same seed gives the same run.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Simulate the cables and hosts of `ethbcast lab`: token buckets that count frame bytes only, no delay.
    #[arg(long)]
    pub lab: bool,
    /// The network as `ethbcast probe` measured it, for the prediction and for `--via auto`; without it, as it is
    /// simulated. If it says what hosts' processors take, the simulated ones take that.
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// Hosts take notice of each frame as soon as they do of a single one. Without it they sleep through dense
    /// arrivals for up to a millisecond, as the driver does to spare wake-ups.
    #[arg(long)]
    pub no_naps: bool,
    /// Put the model's prediction beside the simulation.
    #[arg(long)]
    pub compare: bool,
    /// Print one JSON object, with the load of every cable.
    #[arg(long)]
    pub json: bool,
}
