//! Command-line arguments of the commands on topologies and broadcast trees: `topo`, `plan`,
//! `simulate` and `report`.

use super::{decimal, number, whole};
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct TopoArgs {
    #[command(subcommand)]
    pub command: TopoCommand,
}

#[derive(Debug, Subcommand)]
pub enum TopoCommand {
    /// Draw the switches, the hosts on each, and the cables between them.
    Show {
        /// Topology file (TOML or Slurm's), directory of lldpcli outputs, or test bed (fig9-1 to
        /// fig9-5).
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        drawing: DrawingArgs,
    },
    /// Write a topology file from Slurm's or LLDP's data.
    Import(ImportArgs),
    /// Summarise a topology, or list its errors. With errors, the exit code is 2.
    Check {
        /// Topology file (TOML or Slurm's), directory of lldpcli outputs, or test bed (fig9-1 to
        /// fig9-5).
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    #[command(flatten)]
    pub source: ImportSource,
    /// Use only LLDP neighbours that hosts saw on this interface.
    #[arg(long, value_name = "IFACE", conflicts_with_all = ["slurm", "slurm_addr"])]
    pub interface: Option<String>,
    /// Write the topology to FILE instead of stdout.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct ImportSource {
    /// Slurm's topology.conf or topology.yaml (topology/tree).
    #[arg(long, value_name = "FILE")]
    pub slurm: Option<PathBuf>,
    /// File with one line per host, as `srun sh -c 'echo $SLURM_TOPOLOGY_ADDR
    /// $SLURM_TOPOLOGY_ADDR_PATTERN'` prints them; `-` is stdin.
    #[arg(long, value_name = "FILE")]
    pub slurm_addr: Option<PathBuf>,
    /// Directory with the output of `lldpcli -f json0 show neighbors` of each host, as HOST.json.
    /// Files of switches help, too.
    #[arg(long, value_name = "DIR")]
    pub lldp: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, Args)]
#[group(multiple = false)]
pub struct DrawingArgs {
    /// Draw a tree as text (the default).
    #[arg(long)]
    pub text: bool,
    /// Draw as DOT, for Graphviz.
    #[arg(long)]
    pub dot: bool,
    /// Draw as SVG.
    #[arg(long)]
    pub svg: bool,
}

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Topology file (TOML or Slurm's), directory of lldpcli outputs, or test bed (fig9-1 to
    /// fig9-5).
    #[arg(long, value_name = "FILE")]
    pub topology: PathBuf,
    /// Sending host.
    #[arg(long, value_name = "HOST", required_unless_present = "check")]
    pub root: Option<String>,
    /// Size of the data, such as 1500, 64K or 16M.
    #[arg(long, value_name = "BYTES", value_parser = ethbcast_planning::parse_size, required_unless_present = "check")]
    pub size: Option<u64>,
    /// Check a saved plan on this topology. Cables over which several hosts send at the same time
    /// are listed; the exit code is then 2.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["root", "via", "out"])]
    pub check: Option<PathBuf>,
    /// With --check, list such cables but exit with 0.
    #[arg(long, requires = "check")]
    pub allow_contention: bool,
    /// Broadcast algorithm: auto (least predicted time), all (compare all), or another value of
    /// `send --via`.
    #[arg(long, value_name = "VIA", default_value = "auto")]
    pub via: String,
    /// Network costs measured by `ethbcast probe --out`. Without it, cables of 1 Gbit/s are
    /// assumed.
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// MTU of the hosts.
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = number(0..=u16::MAX))]
    pub mtu: u16,
    #[command(flatten)]
    pub drawing: DrawingArgs,
    /// Print one JSON object.
    #[arg(long, conflicts_with_all = ["text", "dot", "svg"])]
    pub json: bool,
    /// Save the plan to FILE, for `ethbcast send --plan`.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// Topology file (TOML or Slurm's), directory of lldpcli outputs, or test bed (fig9-1 to
    /// fig9-5).
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "hosts",
        conflicts_with = "hosts"
    )]
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
    #[arg(
        long,
        value_name = "VIA",
        default_value = "auto",
        conflicts_with = "plan"
    )]
    pub via: String,
    /// Run a plan saved by `ethbcast plan --out`.
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Rate of cables that have none in the topology, such as 100mbit. Default: 1gbit, or the rate
    /// of the fastest host if the topology has the rates of all hosts.
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
    /// Network costs measured by `ethbcast probe --out`, for the prediction and --via auto.
    /// Processor times in it also hold for the simulated hosts. Default: the costs of the simulated
    /// network.
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// Process each frame as it arrives. Without it, hosts sleep up to 1 ms while frames arrive
    /// densely, as the driver does to save wake-ups.
    #[arg(long)]
    pub no_naps: bool,
    /// Print the model's prediction next to the simulation.
    #[arg(long)]
    pub compare: bool,
    /// Print one JSON object, with the load of every cable.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Report to read: written by `send --report FILE` or printed by `send --json`; `-` is stdin.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the page to FILE instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
