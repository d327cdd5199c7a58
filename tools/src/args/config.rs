//! The arguments of `ethbcast config`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `ethbcast config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// What to do with the configuration.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// The commands about the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Say what is wrong with a configuration file (exit code 2), and which options may be meant.
    Check {
        /// The file; without it $ETHBCAST_CONFIG, or /etc/ethbcast/ethbcast.toml.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}
