//! The arguments of `ethbcast man` and `ethbcast completions`.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// `ethbcast man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory to write them to, made if it is not there; what is called the same in it is replaced. `man -l FILE`
    /// shows one.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// `ethbcast completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell. For bash: `ethbcast completions bash > /etc/bash_completion.d/ethbcast`.
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}
