//! The arguments of `ethbcast plan`.

use super::number;
use super::topo::DrawingArgs;
use clap::Args;
use std::path::PathBuf;

/// `ethbcast plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Topology file (TOML or Slurm's), directory of lldpcli outputs, or test bed (fig9-1 to fig9-5).
    #[arg(long, value_name = "FILE")]
    pub topology: PathBuf,
    /// Sending host.
    #[arg(long, value_name = "HOST", required_unless_present = "check")]
    pub root: Option<String>,
    /// Size of the data, such as 1500, 64K or 16M.
    #[arg(long, value_name = "BYTES", value_parser = ethbcast_planning::parse_size, required_unless_present = "check")]
    pub size: Option<u64>,
    /// Check a saved plan on this topology. Cables over which several hosts send at the same time are listed; the exit
    /// code is then 2.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["root", "via", "out"])]
    pub check: Option<PathBuf>,
    /// With --check, list such cables but exit with 0.
    #[arg(long, requires = "check")]
    pub allow_contention: bool,
    /// Broadcast algorithm: auto (least predicted time), all (compare all), or another value of `send --via`.
    #[arg(long, value_name = "VIA", default_value = "auto")]
    pub via: String,
    /// Network costs measured by `ethbcast probe --out`. Without it, cables of 1 Gbit/s are assumed.
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// MTU of the hosts.
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = number(0..=u16::MAX))]
    pub mtu: u16,
    /// Format of the drawing.
    #[command(flatten)]
    pub drawing: DrawingArgs,
    /// Print one JSON object.
    #[arg(long, conflicts_with_all = ["text", "dot", "svg"])]
    pub json: bool,
    /// Save the plan to FILE, for `ethbcast send --plan`.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
