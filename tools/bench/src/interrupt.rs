//! Ctrl-C during a bench or a long run of tests: held back, asked for at every turn, so that the lab is taken down on
//! the way out.

use std::io;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// A signal has come: the program is to end, and to clean up as it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted; the lab has been taken down")]
pub struct Interrupted(Signal);

impl Interrupted {
    /// Which signal.
    pub fn signal(self) -> Signal {
        self.0
    }
}

/// SIGINT, SIGTERM and SIGHUP of this process, waiting to be asked for.
#[derive(Debug)]
pub struct Interrupt {
    pending: SignalFd,
}

impl Interrupt {
    /// Holds the signals back in this thread and all it starts from now on, programs included.
    ///
    /// # Errors
    /// If the kernel refuses the signal mask or has no descriptor left.
    pub fn hold() -> io::Result<Self> {
        let held: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        let pending = SignalFd::with_flags(&held, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        held.thread_block()?;
        Ok(Self { pending })
    }

    /// Goes on unless a signal has come.
    ///
    /// # Errors
    /// [`Interrupted`] if one has come.
    pub fn check(&self) -> anyhow::Result<()> {
        let Some(told) = self.pending.read_signal()? else { return Ok(()) };
        // Only these three are asked for; any other number would be the kernel's mistake.
        Err(Interrupted(Signal::try_from(told.ssi_signo as i32).unwrap_or(Signal::SIGTERM)).into())
    }
}
