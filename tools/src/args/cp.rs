//! The arguments of `ethbcast cp`.

use super::{ProgressArgs, WireArgs, seconds};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// `ethbcast cp`.
#[derive(Debug, Args)]
pub struct CpArgs {
    /// What all commands on the wire share.
    #[command(flatten)]
    pub wire: WireArgs,
    /// How it tells how far it is.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// To these hosts, such as n[1-31], rack[1-4]n[0-9], ^FILE (a file of hosts) or @group (as ClusterShell's `nodeset`
    /// knows it). Without it and without HOSTS:, those of the Slurm job (SLURM_JOB_NODELIST).
    #[arg(short = 'w', long, value_name = "NODESET")]
    pub nodes: Option<String>,
    /// How long to look for the hosts that serve, and to wait for those to join.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    pub max_wait: f64,
    /// How the bytes travel: auto, or a way as `send` knows it.
    #[arg(long, value_name = "VIA", default_value = "auto")]
    pub via: String,
    /// The cluster's switches and hosts; without it all hosts are taken to be on one switch.
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// Let no host send more than this, such as 400mbit, as with `send`.
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,
    /// Give way to what others send, as with `send`.
    #[arg(long)]
    pub nice: bool,
    /// For sbcast's and cp's sake: modes and times are kept anyway.
    #[arg(short = 'p', long)]
    pub preserve: bool,
    /// For sbcast's and cp's sake: what is replaced is decided by the hosts (`recv --serve --force`).
    #[arg(short = 'f', long)]
    pub force: bool,
    /// For sbcast's and clush's sake: how many are sent to is decided by the way that the bytes take.
    #[arg(short = 'F', long, value_name = "N")]
    pub fanout: Option<u32>,
    /// Files and directories, and the hosts with the name that one gets there: `n[1-31]:`, `n[1-31]:NAME`, with -w or
    /// in a job also NAME, or nothing. Several keep their names; behind them stands `n[1-31]:`, with -w or in a job
    /// `:`, and the hosts serve with --in-place.
    #[arg(required = true, num_args = 1.., value_names = ["SOURCE", "HOSTS:NAME"])]
    pub paths: Vec<OsString>,
}
