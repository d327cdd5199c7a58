//! Ctrl-C during a bench or a long run of tests: held back, asked for at every turn, so that the lab is taken down on
//! the way out.

use std::io;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

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
    /// If one has come: the program is to end, and to clean up as it does.
    pub fn check(&self) -> anyhow::Result<()> {
        match self.pending.read_signal()? {
            None => Ok(()),
            Some(_) => anyhow::bail!("interrupted; the lab has been taken down"),
        }
    }
}
