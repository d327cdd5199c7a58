//! The arguments of `ethbcast cp`.

use super::heading::{HOW, WHAT, WHO};
use super::{ProgressArgs, WireArgs, examples, seconds, whole};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// `ethbcast cp`.
#[derive(Debug, Args)]
#[command(after_long_help = examples::text("cp"))]
pub struct CpArgs {
    /// Destination hosts, such as n[1-31], rack[1-4]n[0-9], ^FILE (a file of host names) or @group (a group of
    /// ClusterShell). Without it and without HOSTS:, those of the Slurm job (SLURM_JOB_NODELIST).
    #[arg(short = 'w', long, value_name = "NODESET", help_heading = WHO)]
    pub nodes: Option<String>,
    /// Seconds to look for hosts that run `recv --serve`, and then to wait for them to join.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds, help_heading = WHO)]
    pub max_wait: f64,
    /// Files and directories to copy, and the destination: `n[1-31]:` or `n[1-31]:NAME`. With -w or in a Slurm job NAME
    /// is enough, or nothing. Several sources keep their names; the destination is then `n[1-31]:` (or `:`), and the
    /// hosts run `recv --serve --in-place`.
    #[arg(required = true, num_args = 1.., value_names = ["SOURCE", "HOSTS:NAME"], help_heading = WHAT,
        display_order = 0)]
    pub paths: Vec<OsString>,
    /// Accepted for sbcast and cp: modes and times are always kept.
    #[arg(short = 'p', long, help_heading = WHAT)]
    pub preserve: bool,
    /// Accepted for sbcast and cp: the hosts decide whether files are replaced (`recv --serve --force`).
    #[arg(short = 'f', long, help_heading = WHAT)]
    pub force: bool,
    /// Topology file with the cluster's switches and hosts. Without it, all hosts are assumed to be on one switch.
    #[arg(long, value_name = "FILE", help_heading = HOW)]
    pub topology: Option<PathBuf>,
    /// Broadcast algorithm: auto, or another value of `send --via`.
    #[arg(long, value_name = "VIA", default_value = "auto", help_heading = HOW)]
    pub via: String,
    /// Limit of each host's sending rate, such as 400mbit, as for `send`.
    #[arg(long, value_name = "RATE", help_heading = HOW)]
    pub rate: Option<String>,
    /// Yield to other traffic, as for `send`.
    #[arg(long, help_heading = HOW)]
    pub nice: bool,
    /// Accepted for sbcast and clush: the broadcast algorithm decides how many hosts are sent to at once.
    #[arg(short = 'F', long, value_name = "N", value_parser = whole::<u32>, help_heading = HOW)]
    pub fanout: Option<u32>,
    /// Progress, metrics and logs.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// Options that all commands on the network share.
    #[command(flatten)]
    pub wire: WireArgs,
}
