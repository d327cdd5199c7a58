//! A host of a small world: a machine with its application, and its invariants.

use ethbcast_transport::{Instant, Machine};
use std::fmt::Debug;

/// A host's machine with its application.
pub trait Host: Machine + Clone + Debug {
    /// Names, as in `Debug` output, of types that do not distinguish states: counters on which no
    /// decision depends, and configuration.
    const SKIPPED: &'static [&'static str];

    /// Whether a host may die.
    const IS_MORTAL: fn(usize) -> bool = |_| true;

    /// Returns a notice of a death for host 0, sent without loss, where no machine detects deaths
    /// itself.
    fn notice(_dead: usize) -> Option<Vec<u8>> {
        None
    }

    /// Whether `frame` is such a notice.
    fn is_notice(_frame: &[u8]) -> bool {
        false
    }

    /// Runs the application; returns when to call it again.
    fn turn(&mut self, now: Instant) -> Option<Instant>;

    /// Whether exploring begins here: earlier steps are played once, without faults.
    fn has_begun(&self) -> bool;

    /// Returns the result of this host so far.
    fn fate(&self) -> Fate;

    /// Whether its process has ended: it receives and sends nothing more.
    fn is_over(&self) -> bool {
        self.fate() != Fate::Open
    }

    /// Whether it has every byte that was sent, in order.
    fn has_all(&self) -> bool;

    /// Returns the hosts that this one claims to have every byte.
    fn claims(&self) -> Vec<usize>;

    /// Returns the number and the digest of the view by which this host acts, if any.
    fn view(&self) -> Option<(u32, u64)> {
        None
    }

    /// Checks the invariants after a step from `before`.
    ///
    /// # Errors
    /// The invariant that is violated.
    fn check(&self, before: &Self) -> Result<(), String>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Open,
    /// Ended with its bytes, or with the others' completion as far as it knows.
    Delivered,
    /// Ended without them, for this reason.
    Failed(String),
}
