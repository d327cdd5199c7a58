//! The arguments of `ethbcast report`.

use clap::Args;
use std::path::PathBuf;

/// `ethbcast report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Report to read: written by `send --report FILE` or printed by `send --json`; `-` is stdin.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the page to FILE instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
