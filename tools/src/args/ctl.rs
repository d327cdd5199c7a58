//! The arguments of `ethbcast ctl`.

use super::send::rate;
use super::whole;
use clap::{Args, Subcommand};
use ethbcast_collectives::session::Rate;

/// `ethbcast ctl`.
#[derive(Debug, Args)]
pub struct CtlArgs {
    /// Process id of the `ethbcast send` or `cp`. Default: the only one on this host, or in this network namespace.
    #[arg(long, value_name = "PID", value_parser = whole::<u32>)]
    pub pid: Option<u32>,
    /// Command for the sender.
    #[command(subcommand)]
    pub command: CtlCommand,
}

/// Commands for a running sender.
#[derive(Debug, Subcommand)]
pub enum CtlCommand {
    /// Set the rate limit of a sender that was started with --rate. Forwarding hosts follow a moment later.
    Rate {
        /// New limit, such as 400mbit.
        #[arg(value_parser = rate)]
        rate: Rate,
    },
    /// Print the rate limit.
    Show,
    /// Start with the receivers that have joined, without waiting for those of -n, --hosts or --max-wait.
    Start,
}
