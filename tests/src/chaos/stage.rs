//! What all runs of a campaign have in common.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::bail;

use crate::lab::program::Program;

/// How patient the programs are told to be, and how patient the judge is.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Without progress for so long a receiver is put aside.
    pub stall: Duration,
    /// So long a silent host is waited for.
    pub patience: Duration,
    /// So long a root waits for receivers of whom some may not come.
    pub send_wait: Duration,
    /// So long a receiver waits for a sender.
    pub receive_wait: Duration,
    /// How many times as long as it should a run may take: more on a machine that has other work.
    pub slack: f64,
}

/// Where runs are played.
#[derive(Debug)]
pub struct Stage<'a> {
    /// The program.
    pub program: &'a Program,
    /// An empty directory.
    pub directory: &'a Path,
    /// The name of the lab.
    pub lab: &'a str,
    /// How patient everybody is.
    pub terms: Terms,
    /// Set when the user wants an end.
    pub interrupted: &'a AtomicBool,
}

impl Stage<'_> {
    /// Goes on unless the user wants an end.
    ///
    /// # Errors
    /// If that is so.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted; the lab has been taken down");
        }
        Ok(())
    }
}
