//! The arguments of `ethbcast report`.

use clap::Args;
use std::path::PathBuf;

/// `ethbcast report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The report: what `send --report FILE` wrote, or `send --json` printed; `-` is stdin.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the page to this file instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
