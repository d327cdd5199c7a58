//! Deferred Ctrl-C during a bench or a long test run, so that the lab is removed before the end.

use std::io;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// A signal has arrived and the program must clean up and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted; the lab has been taken down")]
pub struct Interrupted(Signal);

impl Interrupted {
    /// Returns the signal.
    pub fn signal(self) -> Signal {
        self.0
    }
}

/// SIGINT, SIGTERM and SIGHUP of this process, blocked and polled.
#[derive(Debug)]
pub struct Interrupt {
    pending: SignalFd,
}

impl Interrupt {
    /// Blocks the signals in this thread and everything it starts from now on, programs included.
    ///
    /// # Errors
    /// If the kernel refuses the signal mask or has no descriptor left.
    pub fn hold() -> io::Result<Self> {
        let held: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        let pending = SignalFd::with_flags(&held, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        held.thread_block()?;
        Ok(Self { pending })
    }

    /// Checks that no signal has arrived.
    ///
    /// # Errors
    /// [`Interrupted`] if one has come.
    pub fn check(&self) -> anyhow::Result<()> {
        let Some(told) = self.pending.read_signal()? else { return Ok(()) };
        // Only these three signals are polled.
        Err(Interrupted(Signal::try_from(told.ssi_signo as i32).unwrap_or(Signal::SIGTERM)).into())
    }
}
