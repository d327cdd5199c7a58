//! Options for a directory as SOURCE.

use super::heading::WHAT;
use clap::Args;
use std::path::PathBuf;

/// Selection and attributes of the files in SOURCE.
#[derive(Debug, Args)]
#[command(next_help_heading = WHAT)]
pub struct TreeArgs {
    /// Leave out files that match PATTERN, as in .gitignore: `*.o`, `/build/`, `!keep.o`. May be repeated.
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Leave out files that match the patterns in FILE, one per line. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub exclude_from: Vec<PathBuf>,
    /// Send owner and group of each file by name. Receivers that run as root apply them.
    #[arg(long)]
    pub owner: bool,
    /// Send owner and group of each file by number. Receivers that run as root apply them.
    #[arg(long)]
    pub numeric: bool,
    /// Send extended attributes.
    #[arg(long)]
    pub xattrs: bool,
    /// Send device nodes, FIFOs and sockets. Without it, they are refused.
    #[arg(long)]
    pub devices: bool,
    /// Follow symbolic links that lead out of SOURCE: send their targets instead of the links.
    #[arg(long)]
    pub follow: bool,
    /// Stay on the file system of SOURCE. A mount point below it is sent as an empty directory.
    #[arg(long)]
    pub one_file_system: bool,
}
