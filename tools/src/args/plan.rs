//! The arguments of `ethbcast plan`.

use super::topo::DrawingArgs;
use clap::Args;
use std::path::PathBuf;

/// `ethbcast plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The cluster: a topology file (TOML, or Slurm's), a folder of lldpcli outputs, or a test bed
    /// (fig9-1 … fig9-5).
    #[arg(long, value_name = "FILE")]
    pub topology: PathBuf,
    /// The host the bytes come from.
    #[arg(long, value_name = "HOST", required_unless_present = "check")]
    pub root: Option<String>,
    /// Bytes to send, such as 1500, 64K or 16M.
    #[arg(long, value_name = "BYTES", value_parser = ethbcast_planning::parse_size, required_unless_present = "check")]
    pub size: Option<u64>,
    /// Judge this saved plan on the topology: over which cables several hosts send at a time (then the exit code is 2).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["root", "via", "out"])]
    pub check: Option<PathBuf>,
    /// With --check: contention is only told.
    #[arg(long, requires = "check")]
    pub allow_contention: bool,
    /// How the bytes travel: auto (the least predicted time), all (compare all ways), or a way as `send` knows it.
    #[arg(long, value_name = "VIA", default_value = "auto")]
    pub via: String,
    /// What the network costs, as `ethbcast probe --out` writes it; without it, cables of 1 Gbit/s.
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// MTU of the hosts, which bounds what a frame carries.
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    pub mtu: u16,
    /// How to draw the plan over the switches.
    #[command(flatten)]
    pub drawing: DrawingArgs,
    /// Print one JSON object.
    #[arg(long, conflicts_with_all = ["text", "dot", "svg"])]
    pub json: bool,
    /// Save the plan, for `ethbcast send --plan`.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
