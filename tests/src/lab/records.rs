//! Files to which a campaign adds every run at once, because it may be interrupted.

use anyhow::Context;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// File that runs are recorded in.
#[derive(Debug, clap::Args)]
pub struct Records {
    /// Add every run to this file, as a line of JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Add all that was said in runs that are not good to this file.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

impl Records {
    /// Adds a run.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn add(&self, run: impl Fn() -> Value) -> anyhow::Result<()> {
        self.json.iter().try_for_each(|path| Ok(writeln!(appended(path)?, "{}", run())?))
    }

    /// Adds the output of a failed run, under these headings.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn complain(&self, headings: &[&str], said: &str) -> anyhow::Result<()> {
        let headings: String = headings.iter().map(|heading| format!("== {heading}\n")).collect();
        self.log.iter().try_for_each(|path| Ok(writeln!(appended(path)?, "{headings}{said}")?))
    }
}

fn appended(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new().create(true).append(true).open(path).with_context(|| format!("opening {}", path.display()))
}
