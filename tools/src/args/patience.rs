//! How long `send` and `recv` wait, and for what.

use super::seconds;
use clap::{Args, ValueEnum};
use ethbcast_collectives::session::{OnSlow, Options};
use std::time::Duration;

/// How long `send` and `recv` wait for the other side.
#[derive(Debug, Args)]
pub struct PatienceArgs {
    /// How long a host that falls silent is waited for (a cable that was pulled, a stopped process) while the others go
    /// on; 0 gives it up at once. --receive-timeout is the same.
    #[arg(long, alias = "receive-timeout", value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    pub patience: f64,
    /// Silence after which a host is put out of the others' way: 0.05 to 30.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.5, value_parser = dead_after)]
    pub dead_after: f64,
    /// End the whole after so long, whatever it waits for.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<f64>,
}

/// How long `send` bears with receivers that are heard.
#[derive(Debug, Args)]
pub struct StallArgs {
    /// Without progress for so long a receiver is put out of the others' way; it is given up after --patience.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub stall: f64,
    /// How long a receiver may verify and sync what it has.
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0, value_parser = seconds)]
    pub sync_timeout: f64,
    /// What becomes of a receiver that is slower than the others: demote (it is served beside them and finishes last),
    /// wait (all are as slow as it is) or evict (it is given up).
    #[arg(long, value_enum, value_name = "WHAT", default_value = "demote", hide_possible_values = true)]
    pub on_slow: Slow,
    /// For so long a receiver may hold up the others.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    pub slow_after: f64,
}

/// What `send --on-slow` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Slow {
    /// It is served beside the others.
    Demote,
    /// All wait for it.
    Wait,
    /// It is given up.
    Evict,
}

impl PatienceArgs {
    /// Tells the session.
    pub fn apply(&self, options: &mut Options) {
        options.timing.patience = Duration::from_secs_f64(self.patience);
        options.timing.dead = Duration::from_secs_f64(self.dead_after);
        options.timing.suspect = options.timing.suspect.min(options.timing.dead / 2);
        // Several signs of life may get lost before silence counts.
        options.timing.status = options.timing.status.min(options.timing.dead / 10);
        options.time_limit = self.timeout.map(Duration::from_secs_f64);
    }
}

impl StallArgs {
    /// Tells the session.
    pub fn apply(&self, options: &mut Options) {
        options.timing.stall = Duration::from_secs_f64(self.stall);
        options.timing.sync = Duration::from_secs_f64(self.sync_timeout);
        options.timing.slow = Duration::from_secs_f64(self.slow_after);
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
