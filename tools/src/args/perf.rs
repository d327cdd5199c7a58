//! The arguments of `ethbcast perf`.

use super::WireArgs;
use crate::perf::Op;
use clap::Args;
use ethbcast_collectives::Preset;
use ethbcast_planning::parse_size;
use std::path::PathBuf;

/// `ethbcast perf`.
#[derive(Debug, Args)]
pub struct PerfArgs {
    /// What all commands on the wire share.
    #[command(flatten)]
    pub wire: WireArgs,
    /// How many ranks take part, this one included.
    #[arg(short = 'n', long, value_name = "RANKS", value_parser = clap::value_parser!(u16).range(2..))]
    pub ranks: u16,
    /// This host is the root: it broadcasts, measures and reports. Exactly one host is.
    #[arg(long)]
    pub root: bool,
    /// What to measure, always calls of the library: bcast (and a barrier), barrier, sendrecv (to the next rank and
    /// from the one before), allgather, scatter (and a barrier), gather. Sizes are those of a block there.
    #[arg(long, value_name = "OP", value_enum, default_value_t, hide_possible_values = true)]
    pub op: Op,
    /// How broadcasts travel: auto, or a way such as chain, binary, kary=3, cast (see `ethbcast send --help`). For the
    /// root.
    #[arg(long, value_name = "VIA", default_value = "auto")]
    pub via: String,
    /// Broadcast by a plan that `ethbcast plan --out` saved from this root to these hosts. With --topology it is judged
    /// first. For the root.
    #[arg(long, value_name = "FILE", conflicts_with = "via")]
    pub plan: Option<PathBuf>,
    /// Run the plan although several hosts send over one cable at a time.
    #[arg(long, requires = "plan")]
    pub allow_contention: bool,
    /// The protocol of a cast, with --via cast: default fills the holes receivers name; paper and push-pull are the EQA
    /// paper's Simple Broadcast (strict go-back-n, window 16) and Push-Pull Broadcast (the first frames at once, the
    /// rest when a receiver has answered). The same on all ranks.
    #[arg(long, value_name = "PRESET", value_parser = super::presets(), default_value_t, hide_possible_values = true)]
    pub preset: Preset,
    /// Send no frame to all, as where switches police broadcast: broadcasts go down trees, allgathers round a ring. For
    /// the root.
    #[arg(long)]
    pub no_casts: bool,
    /// Sizes of the messages, such as 256,4K,1M.
    #[arg(long, value_delimiter = ',', value_parser = parse_size, default_value = "256,4K,64K,1M")]
    pub sizes: Vec<u64>,
    /// Iterations with each size.
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub iterations: u32,
    /// Rest so long before each broadcast and each barrier that is timed, as a program does that computes in between:
    /// meanwhile what token buckets and processors let pass at once is there again. For the root.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds)]
    pub pause: Option<f64>,
    /// The cluster's switches and hosts; without it all hosts are taken to be on one switch. For the root.
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// What the network costs, as `ethbcast probe --out` writes it. For the root.
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// Do not probe: assume cables of 1 Gbit/s unless there is a calibration.
    #[arg(long)]
    pub no_probe: bool,
    /// How long to wait for the others.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = super::seconds)]
    pub max_wait: f64,
}
