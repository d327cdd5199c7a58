//! The arguments of `ethbcast man` and `ethbcast completions`.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// `ethbcast man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory for the pages. It is created if it is missing; files of the same name are replaced. `man -l FILE`
    /// shows a page.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// `ethbcast completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell that reads the script. For bash: `ethbcast completions bash > /etc/bash_completion.d/ethbcast`.
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}
