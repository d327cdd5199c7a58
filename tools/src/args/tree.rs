//! What of a directory is sent.

use clap::Args;
use std::path::PathBuf;

/// The options of a directory as SOURCE.
#[derive(Debug, Args)]
pub struct TreeArgs {
    /// Leave out what fits this pattern, as in .gitignore: `*.o`, `/build/`, `!keep.o`; may be given several times.
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Leave out what fits the patterns of this file, one in each line.
    #[arg(long, value_name = "FILE")]
    pub exclude_from: Vec<PathBuf>,
    /// Send whose the files are, by name; receivers that run as root give them to the same.
    #[arg(long)]
    pub owner: bool,
    /// Send whose the files are, by number.
    #[arg(long)]
    pub numeric: bool,
    /// Send extended attributes.
    #[arg(long)]
    pub xattrs: bool,
    /// Send device nodes, fifos and sockets as what they are; without it, they are refused.
    #[arg(long)]
    pub devices: bool,
    /// Send what links out of SOURCE lead to, files and directories, instead of the links.
    #[arg(long)]
    pub follow: bool,
    /// Stay on the file system that SOURCE is on: where another is mounted an empty directory is sent.
    #[arg(long)]
    pub one_file_system: bool,
}
