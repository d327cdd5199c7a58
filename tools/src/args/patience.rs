//! Time limits of `send` and `recv`.

use super::heading::TROUBLE;
use super::seconds;
use clap::{Args, ValueEnum};
use ethbcast_collectives::session::{OnSlow, RunOptions, SendOptions};
use std::time::Duration;

/// Limits on the silence of the other side, and on the whole run.
#[derive(Debug, Args)]
#[command(next_help_heading = TROUBLE)]
pub struct PatienceArgs {
    /// Seconds to wait for a silent host (cable pulled, process stopped) while the others go on. 0 gives it up at once.
    /// Alias: --receive-timeout.
    #[arg(long, alias = "receive-timeout", value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    pub patience: f64,
    /// Seconds of silence after which the others go on without a host: 0.05 to 30.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.5, value_parser = dead_after)]
    pub dead_after: f64,
    /// End the run after SECONDS, whatever it is waiting for.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<f64>,
}

/// Limits on receivers that answer but are slow.
#[derive(Debug, Args)]
#[command(next_help_heading = TROUBLE)]
pub struct StallArgs {
    /// Seconds without progress after which the others go on without a receiver. It is given up when --patience has
    /// passed as well.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub stall: f64,
    /// Seconds a receiver may take to verify its data and sync it to disk.
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0, value_parser = seconds)]
    pub sync_timeout: f64,
    /// Treatment of a receiver that is slower than the others: demote (serve it separately; it finishes last), wait
    /// (all slow down to its rate) or evict (give it up).
    #[arg(long, value_enum, value_name = "ACTION", default_value = "demote", hide_possible_values = true)]
    pub on_slow: Slow,
    /// Tolerate a slow receiver for SECONDS before applying --on-slow.
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
    /// Copies the limits into the options of a session.
    pub fn apply(&self, run: &mut RunOptions) {
        run.timing.patience = Duration::from_secs_f64(self.patience);
        run.timing.dead = Duration::from_secs_f64(self.dead_after);
        run.timing.suspect = run.timing.suspect.min(run.timing.dead / 2);
        // Several heartbeats may be lost before silence counts.
        run.timing.status = run.timing.status.min(run.timing.dead / 10);
        run.time_limit = self.timeout.map(Duration::from_secs_f64);
    }
}

impl StallArgs {
    /// Copies the limits into the session's options.
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
    seconds(text).ok().filter(within).ok_or_else(|| "expected 0.05 to 30 seconds".to_owned())
}
