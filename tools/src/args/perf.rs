//! The arguments of `ethbcast perf`.

use super::heading::{HOW, MEASURED, WHO};
use super::{WireArgs, examples, number, presets, seconds};
use crate::perf::Op;
use clap::Args;
use ethbcast_collectives::Preset;
use ethbcast_planning::parse_size;
use std::path::PathBuf;

/// `ethbcast perf`.
#[derive(Debug, Args)]
#[command(after_long_help = examples::text("perf"))]
pub struct PerfArgs {
    /// Number of ranks, this one included.
    #[arg(short = 'n', long, value_name = "RANKS", value_parser = number(2..=u16::MAX),
        help_heading = WHO)]
    pub ranks: u16,
    /// Make this host the root, which broadcasts, measures and reports. Exactly one host is the root.
    #[arg(long, help_heading = WHO)]
    pub root: bool,
    /// Seconds to wait for the other ranks.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds, help_heading = WHO)]
    pub max_wait: f64,
    /// Operation to time: bcast (and a barrier), barrier, sendrecv (to the next rank and from the previous one),
    /// allgather, scatter (and a barrier) or gather.
    #[arg(long, value_name = "OP", value_enum, default_value_t, hide_possible_values = true, help_heading = MEASURED)]
    pub op: Op,
    /// Message sizes, such as 256,4K,1M. For allgather, scatter and gather: the size of one block.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_size, default_value = "256,4K,64K,1M",
        help_heading = MEASURED)]
    pub sizes: Vec<u64>,
    /// Iterations for each size.
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = number(1..=1_000_000_u32),
        help_heading = MEASURED)]
    pub iterations: u32,
    /// Seconds to pause before each timed broadcast and barrier, as a program that computes in between does. Token
    /// buckets fill up meanwhile. Root only.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = MEASURED)]
    pub pause: Option<f64>,
    /// Broadcast algorithm: auto, or another value of `send --via` such as chain, binary, kary=3 or cast. Root only.
    #[arg(long, value_name = "VIA", default_value = "auto", help_heading = HOW)]
    pub via: String,
    /// Broadcast along a plan that `ethbcast plan --out` saved for these hosts. With --topology it is checked first.
    /// Root only.
    #[arg(long, value_name = "FILE", conflicts_with = "via", help_heading = HOW)]
    pub plan: Option<PathBuf>,
    /// Run the plan even if several hosts send over one cable at the same time.
    #[arg(long, requires = "plan", help_heading = HOW)]
    pub allow_contention: bool,
    /// Protocol of --via cast: default, paper or push-pull, as for `send`. All ranks need the same.
    #[arg(long, value_name = "PRESET", value_parser = presets(), default_value_t, hide_possible_values = true,
        help_heading = HOW)]
    pub preset: Preset,
    /// Send no broadcast frames, as where switches police them: broadcasts use trees, allgathers a ring. Root only.
    #[arg(long, help_heading = HOW)]
    pub no_casts: bool,
    /// Topology file with the cluster's switches and hosts. Without it, all hosts are assumed to be on one switch. Root
    /// only.
    #[arg(long, value_name = "FILE", help_heading = HOW)]
    pub topology: Option<PathBuf>,
    /// Network costs measured by `ethbcast probe --out`. Root only.
    #[arg(long, value_name = "FILE", help_heading = HOW)]
    pub calibration: Option<PathBuf>,
    /// Do not probe before the start. Without --calibration, cables of 1 Gbit/s are assumed.
    #[arg(long, help_heading = HOW)]
    pub no_probe: bool,
    /// Options that all commands on the network share.
    #[command(flatten)]
    pub wire: WireArgs,
}
