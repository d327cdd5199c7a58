//! The arguments of `ethbcast config`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `ethbcast config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Command on the configuration.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// Commands on the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// List the errors of a configuration file, with the options that may be meant. With errors, the exit code is 2.
    Check {
        /// File to check. Default: $ETHBCAST_CONFIG, or /etc/ethbcast/ethbcast.toml.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}
