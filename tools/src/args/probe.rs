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
    /// Find out which switches are between the hosts, and write them as a topology file (to --out or stdout): hosts
    /// send each other flows of 10 ms, two at a time, and those that share a cable slow each other. For a network that
    /// is quiet, and whose switches nobody can ask.
    #[arg(long, conflicts_with_all = ["answer", "update"])]
    pub discover: bool,
    /// Begin as soon as N hosts have answered; fewer within --max-wait is a failure.
    #[arg(short = 'n', long, value_name = "N", value_parser = receivers())]
    pub receivers: Option<u16>,
    /// How long to look for hosts that answer (5 if not given); with --answer: how long to answer.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub max_wait: Option<f64>,
    /// Write the calibration, for `send --calibration` and `plan --calibration`; with --discover the topology.
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
