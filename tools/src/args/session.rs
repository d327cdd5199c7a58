//! Command-line arguments that `send`, `recv` and `cp` share: time limits, progress output,
//! metrics, logs, keys. Those of `ethbcast key` stand beside them.

use super::{PRINTED, TROUBLE, WHO};
use super::{WireArgs, seconds};
use crate::exit::Form;
use clap::{Args, Subcommand, ValueEnum};
use ethbcast_collectives::session::{OnSlow, RunOptions, SendOptions};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(next_help_heading = TROUBLE)]
pub struct PatienceArgs {
    /// Seconds to wait for a silent host (cable pulled, process stopped) while the others go on. 0
    /// gives it up at once. Alias: --receive-timeout.
    #[arg(long, alias = "receive-timeout", value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    pub patience: f64,
    /// Seconds of silence after which the others go on without a host: 0.05 to 30.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.5, value_parser = dead_after)]
    pub dead_after: f64,
    /// End the run after SECONDS, whatever it is waiting for.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<f64>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = TROUBLE)]
pub struct StallArgs {
    /// Seconds without progress after which the others go on without a receiver. It is given up
    /// when --patience has passed as well.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub stall: f64,
    /// Seconds a receiver may take to verify its data and sync it to disk.
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0, value_parser = seconds)]
    pub sync_timeout: f64,
    /// Treatment of a receiver that is slower than the others: demote (serve it separately; it
    /// finishes last), wait (all slow down to its rate) or evict (give it up).
    #[arg(
        long,
        value_enum,
        value_name = "ACTION",
        default_value = "demote",
        hide_possible_values = true
    )]
    pub on_slow: Slow,
    /// Tolerate a slow receiver for SECONDS before applying --on-slow; one whose cable proves far
    /// slower than those of the others is demoted sooner.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    pub slow_after: f64,
}

/// Treatment of a slow receiver: the value of `send --on-slow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Slow {
    /// Serve it separately from the others.
    Demote,
    /// Slow all receivers down to its rate.
    Wait,
    /// Give it up.
    Evict,
}

impl PatienceArgs {
    pub fn apply(&self, run: &mut RunOptions) {
        run.timing.patience = Duration::from_secs_f64(self.patience);
        run.timing = run
            .timing
            .with_dead(Duration::from_secs_f64(self.dead_after))
            .unwrap_or(run.timing);
        run.time_limit = self.timeout.map(Duration::from_secs_f64);
    }
}

impl StallArgs {
    pub fn apply(&self, options: &mut SendOptions) {
        options.run.timing.stall = Duration::from_secs_f64(self.stall);
        options.run.timing.sync = Duration::from_secs_f64(self.sync_timeout);
        options.run.timing.slow = Duration::from_secs_f64(self.slow_after);
        options.on_slow = match self.on_slow {
            Slow::Demote => OnSlow::Demote,
            Slow::Wait => OnSlow::Wait,
            Slow::Evict => OnSlow::Evict,
        };
    }
}

fn dead_after(text: &str) -> Result<f64, String> {
    let within = |value: &f64| (0.05..=30.0).contains(value);
    seconds(text)
        .ok()
        .filter(within)
        .ok_or_else(|| "expected 0.05 to 30 seconds".to_owned())
}

/// Shortest period between two progress lines, in seconds: progress is sampled ten times a second.
const MIN_PERIOD_SECONDS: f64 = 0.1;

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = PRINTED)]
pub struct ProgressArgs {
    /// Seconds between progress lines if stderr is not a terminal. 0 prints none.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = period)]
    pub stat_period: f64,
    /// Keep metrics in FILE for Prometheus' textfile collector, which reads *.prom. FILE is
    /// replaced at the start, every --stat-period and at the end.
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,
    /// Append log messages to FILE, from level info on unless RUST_LOG sets another. Error messages
    /// of the command still go to stderr.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Print events on stdout as they happen, one JSON object per line: hosts that join, progress
    /// (at most ten times a second), the result of each host. The last event holds the object of
    /// --json.
    #[arg(long, conflicts_with = "json")]
    pub json_stream: bool,
}

impl ProgressArgs {
    pub fn form(&self, wire: &WireArgs) -> Form {
        match (self.json_stream, wire.json) {
            (true, _) => Form::Stream,
            (false, true) => Form::Object,
            (false, false) => Form::Lines,
        }
    }

    /// Returns the period between progress lines, or `None` for no such lines.
    pub fn period(&self) -> Option<Duration> {
        (self.stat_period > 0.0).then(|| Duration::from_secs_f64(self.stat_period))
    }
}

fn period(text: &str) -> Result<f64, String> {
    let is_meant = |value: &f64| *value == 0.0 || *value >= MIN_PERIOD_SECONDS;
    seconds(text)
        .ok()
        .filter(is_meant)
        .ok_or_else(|| "expected 0, or at least 0.1 seconds".to_owned())
}

#[derive(Debug, Args)]
pub struct KeyArgs {
    #[command(subcommand)]
    pub command: KeyCommand,
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make the key of a new cluster, which may send.
    New {
        /// File to make, which only this user can read. Default: stdout, if it is no file that
        /// others can read.
        #[arg(value_name = "FILE", conflicts_with = "phrase")]
        file: Option<PathBuf>,
        /// Print a key phrase of nine words instead, to be typed where no file can be put.
        #[arg(long)]
        phrase: bool,
    },
    /// Make a receivers' key of a sender's: the same without the right to send.
    Receivers {
        /// Key file of a sender.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// File to make, which only this user can read. Default: stdout, if it is no file that
        /// others can read.
        #[arg(value_name = "OUT")]
        out: Option<PathBuf>,
    },
    /// Print a key's name, and whether it may send.
    Show {
        /// Key file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Put a new key in front of those in the file, which stay understood.
    Add {
        /// Key file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = WHO)]
pub struct KeySourceArgs {
    /// Key file of the cluster: hosts without this key are refused, and nobody else's frames are
    /// believed. Default: $ETHBCAST_KEY_FILE, the phrase in $ETHBCAST_KEY, the systemd credential
    /// ethbcast.key, or /etc/ethbcast/key.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key_phrase", "no_key"])]
    pub key: Option<PathBuf>,
    /// Ask for a key phrase on the terminal.
    #[arg(long, conflicts_with = "no_key")]
    pub key_phrase: bool,
    /// Use no key, even if there is one.
    #[arg(long)]
    pub no_key: bool,
    /// Fail if there is no key.
    #[arg(long, conflicts_with = "no_key")]
    pub require_key: bool,
    /// Append the secrets of each session to FILE, which others may not read. Who has it can read a
    /// capture of the session (`ethbcast dump --key-log`).
    #[arg(long, value_name = "FILE")]
    pub key_log: Option<PathBuf>,
}
