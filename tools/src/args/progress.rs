//! How a transfer tells how far it is.

use super::{WireArgs, seconds};
use crate::exit::Form;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Progress comes ten times a second: more lines than that have nothing to say.
const LEAST_PERIOD_SECONDS: f64 = 0.1;

/// How `send`, `recv` and `cp` tell how far they are.
#[derive(Clone, Debug, Args)]
pub struct ProgressArgs {
    /// Where stderr is no terminal, say so often on a line of its own how far it is; 0: never.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = period)]
    pub stat_period: f64,
    /// Keep FILE up to date with how far it is, for Prometheus' textfile collector (whose files are called *.prom):
    /// written at the start, each --stat-period and at the end, whole each time.
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,
    /// Add what is logged to FILE, and more than without it (RUST_LOG says how much); errors stay on stderr.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Print on stdout what happens as it happens, one JSON object in a line: who joins, how far it is (ten times a
    /// second at most), what becomes of each host; the last has the object of --json.
    #[arg(long, conflicts_with = "json")]
    pub json_stream: bool,
}

impl ProgressArgs {
    /// What programs read on stdout.
    pub fn form(&self, wire: &WireArgs) -> Form {
        match (self.json_stream, wire.json) {
            (true, _) => Form::Stream,
            (false, true) => Form::Object,
            (false, false) => Form::Lines,
        }
    }

    /// How often it is said how far it is, if ever.
    pub fn period(&self) -> Option<Duration> {
        (self.stat_period > 0.0).then(|| Duration::from_secs_f64(self.stat_period))
    }
}

fn period(text: &str) -> Result<f64, String> {
    let is_meant = |value: &f64| *value == 0.0 || *value >= LEAST_PERIOD_SECONDS;
    seconds(text).ok().filter(is_meant).ok_or_else(|| "expected 0, or at least 0.1 seconds".to_owned())
}
