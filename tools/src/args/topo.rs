//! The arguments of `ethbcast topo`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `ethbcast topo`.
#[derive(Debug, Args)]
pub struct TopoArgs {
    /// What to do with the topology.
    #[command(subcommand)]
    pub command: TopoCommand,
}

/// The commands about topologies.
#[derive(Debug, Subcommand)]
pub enum TopoCommand {
    /// Draw a topology: which host hangs on which switch, and what joins the switches.
    Show {
        /// A topology file (TOML, or Slurm's), a folder of lldpcli outputs, or a test bed (fig9-1 …
        /// fig9-5).
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// How to draw it.
        #[command(flatten)]
        drawing: DrawingArgs,
    },
    /// Read what others know of the network, and write it as a topology file.
    Import(ImportArgs),
    /// Say what a topology is, or what is wrong with it (exit code 2).
    Check {
        /// A topology file (TOML, or Slurm's), a folder of lldpcli outputs, or a test bed (fig9-1 …
        /// fig9-5).
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// `ethbcast topo import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Where the topology comes from.
    #[command(flatten)]
    pub source: ImportSource,
    /// Of what hosts heard by LLDP, take what they heard on this interface only.
    #[arg(long, value_name = "IFACE", conflicts_with_all = ["slurm", "slurm_addr"])]
    pub interface: Option<String>,
    /// Write the topology to this file instead of stdout.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Where a topology comes from.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct ImportSource {
    /// Slurm's topology.conf or topology.yaml (topology/tree).
    #[arg(long, value_name = "FILE")]
    pub slurm: Option<PathBuf>,
    /// A file with `$SLURM_TOPOLOGY_ADDR $SLURM_TOPOLOGY_ADDR_PATTERN` of each host on a line, as
    /// `srun sh -c 'echo $SLURM_TOPOLOGY_ADDR $SLURM_TOPOLOGY_ADDR_PATTERN'` prints them; `-` is stdin.
    #[arg(long, value_name = "FILE")]
    pub slurm_addr: Option<PathBuf>,
    /// A folder with the output of `lldpcli -f json0 show neighbors` of each host, as HOST.json; those of switches
    /// help.
    #[arg(long, value_name = "DIR")]
    pub lldp: Option<PathBuf>,
}

/// How to draw; as text unless told otherwise.
#[derive(Debug, Clone, Copy, Default, Args)]
#[group(multiple = false)]
pub struct DrawingArgs {
    /// Draw as a text tree: the default.
    #[arg(long)]
    pub text: bool,
    /// Draw as DOT, for Graphviz.
    #[arg(long)]
    pub dot: bool,
    /// Draw as SVG.
    #[arg(long)]
    pub svg: bool,
}
