//! The arguments of `ethbcast ctl`.

use super::send::rate;
use clap::{Args, Subcommand};
use ethbcast_collectives::session::Rate;

/// `ethbcast ctl`.
#[derive(Debug, Args)]
pub struct CtlArgs {
    /// The `ethbcast send` (or `cp`) that is meant, by its process id; without it, the only one on this host (or in
    /// this network namespace).
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// What it is told.
    #[command(subcommand)]
    pub command: CtlCommand,
}

/// What a running sender is told.
#[derive(Debug, Subcommand)]
pub enum CtlCommand {
    /// Set the limit of a sender that was started with --rate: for itself at once, for those that hand on a moment
    /// later.
    Rate {
        /// The limit, such as 400mbit.
        #[arg(value_parser = rate)]
        rate: Rate,
    },
    /// Say what the limit is.
    Show,
    /// Start with the receivers that have joined, though -n, --hosts or --max-wait would wait for more.
    Start,
}
