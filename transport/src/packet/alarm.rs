//! A timer that is set less often than it is needed.
//!
//! A sleep with a time limit sets a timer in the CPU and takes it back, which in a virtual machine is left to the host: measured, 10 of the
//! 26 µs of a blocking round trip, though nothing comes of it, because the frame comes first. So the limit of a sleep is a
//! `timerfd(2)` that stays set from one sleep to the next. It is set anew only for an earlier moment; if it goes off for one that is
//! not needed any more, that is one wake-up for nothing, where dozens of settings were saved.

use super::{Clock, syscall};
use crate::Instant;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What `set_for` holds when no timer is set.
const UNSET: u64 = u64::MAX;
/// A timer set to zero would be none at all.
const SHORTEST: Duration = Duration::from_nanos(1);

/// One sleeper's timer.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: OwnedFd,
    /// The moment it goes off, in nanoseconds. Who sleeps changes it, and only one does at a time.
    set_for: AtomicU64,
}

impl Alarm {
    pub(super) fn new() -> nix::Result<Alarm> {
        Ok(Alarm { timer: syscall::timer()?, set_for: AtomicU64::new(UNSET) })
    }

    /// Sees to it that the descriptor is readable at `end`, possibly also before.
    pub(super) fn set(&self, end: Instant, clock: &Clock) -> nix::Result<()> {
        if end.as_nanos() < self.set_for.load(Ordering::Relaxed) {
            syscall::set_timer(self.as_fd(), end.since(clock.now()).max(SHORTEST))?;
            self.set_for.store(end.as_nanos(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// The descriptor was readable.
    pub(super) fn acknowledge(&self) -> nix::Result<()> {
        self.set_for.store(UNSET, Ordering::Relaxed);
        syscall::read_timer(self.as_fd())
    }

    /// The descriptor that becomes readable.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
