//! Progress output, metrics and logs of `send`, `recv` and `cp`.

use super::heading::PRINTED;
use super::{WireArgs, seconds};
use crate::exit::Form;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Shortest period between two progress lines, in seconds: progress is sampled ten times a second.
const MIN_PERIOD_SECONDS: f64 = 0.1;

/// Options for progress output, metrics and logs.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = PRINTED)]
pub struct ProgressArgs {
    /// Seconds between progress lines if stderr is not a terminal. 0 prints none.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = period)]
    pub stat_period: f64,
    /// Keep metrics in FILE for Prometheus' textfile collector, which reads *.prom. FILE is replaced at the start,
    /// every --stat-period and at the end.
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,
    /// Append log messages to FILE, from level info on unless RUST_LOG sets another. Error messages of the command
    /// still go to stderr.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Print events on stdout as they happen, one JSON object per line: hosts that join, progress (at most ten times a
    /// second), the result of each host. The last event holds the object of --json.
    #[arg(long, conflicts_with = "json")]
    pub json_stream: bool,
}

impl ProgressArgs {
    /// Returns the output format on stdout.
    pub fn form(&self, wire: &WireArgs) -> Form {
        match (self.json_stream, wire.json) {
            (true, _) => Form::Stream,
            (false, true) => Form::Object,
            (false, false) => Form::Lines,
        }
    }

    /// Returns the period between progress lines, or `None` if there are to be none.
    pub fn period(&self) -> Option<Duration> {
        (self.stat_period > 0.0).then(|| Duration::from_secs_f64(self.stat_period))
    }
}

fn period(text: &str) -> Result<f64, String> {
    let is_meant = |value: &f64| *value == 0.0 || *value >= MIN_PERIOD_SECONDS;
    seconds(text).ok().filter(is_meant).ok_or_else(|| "expected 0, or at least 0.1 seconds".to_owned())
}
