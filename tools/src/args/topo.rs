//! The arguments of `ethbcast topo`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `ethbcast topo`.
#[derive(Debug, Args)]
pub struct TopoArgs {
    /// Command on the topology.
    #[command(subcommand)]
    pub command: TopoCommand,
}

/// Commands on topologies.
#[derive(Debug, Subcommand)]
pub enum TopoCommand {
    /// Draw the switches, the hosts on each, and the cables between them.
    Show {
        /// Topology file (TOML or Slurm's), directory of lldpcli outputs, or test bed (fig9-1 to fig9-5).
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Format of the drawing.
        #[command(flatten)]
        drawing: DrawingArgs,
    },
    /// Write a topology file from Slurm's or LLDP's data.
    Import(ImportArgs),
    /// Summarise a topology, or list its errors. With errors, the exit code is 2.
    Check {
        /// Topology file (TOML or Slurm's), directory of lldpcli outputs, or test bed (fig9-1 to fig9-5).
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// `ethbcast topo import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Source of the topology.
    #[command(flatten)]
    pub source: ImportSource,
    /// Use only LLDP neighbours that hosts saw on this interface.
    #[arg(long, value_name = "IFACE", conflicts_with_all = ["slurm", "slurm_addr"])]
    pub interface: Option<String>,
    /// Write the topology to FILE instead of stdout.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Source of a topology.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct ImportSource {
    /// Slurm's topology.conf or topology.yaml (topology/tree).
    #[arg(long, value_name = "FILE")]
    pub slurm: Option<PathBuf>,
    /// File with one line per host, as `srun sh -c 'echo $SLURM_TOPOLOGY_ADDR $SLURM_TOPOLOGY_ADDR_PATTERN'` prints
    /// them; `-` is stdin.
    #[arg(long, value_name = "FILE")]
    pub slurm_addr: Option<PathBuf>,
    /// Directory with the output of `lldpcli -f json0 show neighbors` of each host, as HOST.json. Files of switches
    /// help, too.
    #[arg(long, value_name = "DIR")]
    pub lldp: Option<PathBuf>,
}

/// Format of a drawing; text by default.
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
