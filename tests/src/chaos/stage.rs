//! Settings shared by all runs of a campaign.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::bail;

use crate::lab::Program;

/// Timeouts of the programs, and the judge's tolerance.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Time without progress after which a receiver is demoted.
    pub stall: Duration,
    /// Time that a silent host is waited for.
    pub patience: Duration,
    /// Time that a root waits for receivers when some may not come.
    pub send_wait: Duration,
    /// Time that a receiver waits for a sender.
    pub receive_wait: Duration,
    /// Factor by which a run may exceed its time: more on a machine that has other work.
    pub slack: f64,
}

/// The place of a run.
#[derive(Debug)]
pub struct Stage<'a> {
    pub program: &'a Program,
    pub directory: &'a Path,
    /// The name of the lab.
    pub lab: &'a str,
    /// Timeouts of the programs and the judge.
    pub terms: Terms,
    /// Set when the user interrupts.
    pub interrupted: &'a AtomicBool,
}

impl Stage<'_> {
    /// Checks for an interrupt.
    ///
    /// # Errors
    /// Fails if the user has interrupted.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted; the lab has been taken down");
        }
        Ok(())
    }
}
