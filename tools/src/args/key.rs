//! Command-line arguments of `ethbcast key`, and the options that select a transfer's key.

use super::values::WHO;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct KeyArgs {
    #[command(subcommand)]
    pub command: KeyCommand,
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make the key of a new cluster, which may send.
    New {
        /// File to make, which only this user can read. Default: stdout, if it is no file that others can read.
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
        /// File to make, which only this user can read. Default: stdout, if it is no file that others can read.
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
    /// Key file of the cluster: hosts without this key are refused, and nobody else's frames are believed. Default:
    /// $ETHBCAST_KEY_FILE, the phrase in $ETHBCAST_KEY, the systemd credential ethbcast.key, or /etc/ethbcast/key.
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
    /// Append the secrets of each session to FILE, which others may not read. Who has it can read a capture of the
    /// session (`ethbcast dump --key-log`).
    #[arg(long, value_name = "FILE")]
    pub key_log: Option<PathBuf>,
}
