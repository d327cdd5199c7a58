//! The arguments of `ethbcast probe`.

use super::{WireArgs, receivers, seconds};
use clap::Args;
use std::path::PathBuf;

/// `ethbcast probe`.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// What all commands on the wire share.
    #[command(flatten)]
    pub wire: WireArgs,
    /// Answer the probes of others, until interrupted or for --max-wait seconds.
    #[arg(long, conflicts_with_all = ["receivers", "out", "update", "hosts"])]
    pub answer: bool,
    /// Begin as soon as N hosts have answered; fewer within --max-wait is a failure.
    #[arg(short = 'n', long, value_name = "N", value_parser = receivers())]
    pub receivers: Option<u16>,
    /// How long to look for hosts that answer (5 if not given); with --answer: how long to answer.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub max_wait: Option<f64>,
    /// Write the calibration, for `send --calibration` and `plan --calibration`.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Merge what is measured into this calibration: of the hosts measured now it says the new, of the others what it
    /// said; what is the whole network's is renewed if all its hosts are measured again.
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    pub update: Option<PathBuf>,
    /// Hosts to measure; without any, all that answer.
    #[arg(value_name = "HOST")]
    pub hosts: Vec<String>,
}
