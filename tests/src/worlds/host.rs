//! A host of a small world: a machine with the application that uses it, and what must hold there.

use ethbcast_transport::{Instant, Machine};
use std::fmt::Debug;

/// A host's machine with its application.
pub trait Host: Machine + Clone + Debug {
    /// Types, by their names as `Debug` writes them, that tell no state from another: counters on which no decision
    /// depends, and what a host was told at its beginning.
    const SKIPPED: &'static [&'static str];

    /// Whether a host may die.
    const IS_MORTAL: fn(usize) -> bool = |_| true;

    /// What host 0 gets, by a way without losses, when a host dies: where no machine finds that out by itself.
    fn notice(_dead: usize) -> Option<Vec<u8>> {
        None
    }

    /// Whether this is such a notice, and nothing that travels as frames do.
    fn is_notice(_frame: &[u8]) -> bool {
        false
    }

    /// The application's turn; when it wants to be called again.
    fn turn(&mut self, now: Instant) -> Option<Instant>;

    /// Whether exploring begins here: what went before is played once, without faults.
    fn has_begun(&self) -> bool;

    /// What this host has come to.
    fn fate(&self) -> Fate;

    /// Whether its process has ended: it hears and says nothing more.
    fn is_over(&self) -> bool {
        self.fate() != Fate::Open
    }

    /// Whether it has every byte that was sent, in order.
    fn has_all(&self) -> bool;

    /// The hosts of which this one says that they have every byte.
    fn claims(&self) -> Vec<usize>;

    /// The view by which this host acts, if it was told one: its number, and what tells it from others.
    fn view(&self) -> Option<(u32, u64)> {
        None
    }

    /// Whether all is right here, after a step from `before`.
    ///
    /// # Errors
    /// What is not.
    fn check(&self, before: &Self) -> Result<(), String>;
}

/// What a host has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on.
    Open,
    /// It has what it wanted, or all others have as far as it was told.
    Delivered,
    /// It has ended without, for this reason.
    Failed(String),
}
