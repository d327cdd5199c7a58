//! The arguments of `ethbcast probe`.

use super::heading::{MEASURED, PRINTED, WHO};
use super::{WireArgs, examples, receivers, seconds};
use clap::Args;
use std::path::PathBuf;

/// `ethbcast probe`.
#[derive(Debug, Args)]
#[command(after_long_help = examples::text("probe"))]
pub struct ProbeArgs {
    /// Answer the probes of other hosts, until interrupted or for --max-wait seconds.
    #[arg(long, conflicts_with_all = ["receivers", "out", "update", "hosts"], help_heading = WHO)]
    pub answer: bool,
    /// Hosts to measure. Default: all that answer.
    #[arg(value_name = "HOST", help_heading = WHO, display_order = 0)]
    pub hosts: Vec<String>,
    /// Start as soon as N hosts have answered. Fewer within --max-wait is a failure.
    #[arg(short = 'n', long, value_name = "N", value_parser = receivers, help_heading = WHO)]
    pub receivers: Option<u16>,
    /// Seconds to look for hosts that answer (default: 5), or with --answer to keep answering (default: for ever).
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = WHO)]
    pub max_wait: Option<f64>,
    /// Find the switches between the hosts, and write a topology file to --out or stdout. Hosts send flows of 10 ms,
    /// two at a time; two flows that share a cable slow each other down. The network should be idle.
    #[arg(long, conflicts_with_all = ["answer", "update"], help_heading = MEASURED)]
    pub discover: bool,
    /// Options that all commands on the network share.
    #[command(flatten)]
    pub wire: WireArgs,
    /// Write the calibration to FILE, for `send --calibration` and `plan --calibration`. With --discover, write the
    /// topology.
    #[arg(long, value_name = "FILE", help_heading = PRINTED)]
    pub out: Option<PathBuf>,
    /// Update the calibration in FILE: values of the hosts measured now are replaced, those of other hosts kept. Values
    /// of the network as a whole are replaced if all hosts in FILE are measured again.
    #[arg(long, value_name = "FILE", conflicts_with = "out", help_heading = PRINTED)]
    pub update: Option<PathBuf>,
}
