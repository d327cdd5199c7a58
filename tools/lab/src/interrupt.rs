//! Delay of Ctrl-C while a test network is created, so that nothing is left behind.

use std::fs;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::error::LabError;

const STATUS: &str = "/proc/self/status";

/// Blocks SIGINT, SIGTERM and SIGHUP on this thread, except for those that the process ignores.
///
/// A pending signal is delivered on drop and then has its usual effect. In a program with several
/// threads the system may deliver a signal to another thread at once; the clean-up works only if
/// those threads block it as well.
pub(crate) struct InterruptsHeld {
    before: SigSet,
    pending: SignalFd,
}

impl InterruptsHeld {
    pub(crate) fn new() -> Result<Self, LabError> {
        // An ignored signal would become pending once it is blocked, so that signals ignored by
        // `nohup` are left alone.
        let ignored = fs::read_to_string(STATUS).map_or(0, |status| ignored_signals(&status));
        let is_heeded = |signal: &Signal| ignored >> (*signal as u32 - 1) & 1 == 0;
        let held: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().filter(is_heeded).collect();
        let failed = |source| LabError::system("holding back interrupts", source);
        let pending = SignalFd::with_flags(&held, SfdFlags::SFD_CLOEXEC).map_err(failed)?;
        let before = held.thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(failed)?;
        Ok(Self { before, pending })
    }

    /// Fails if a signal is pending. The signal is still delivered later.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        let mut watched = [PollFd::new(self.pending.as_fd(), PollFlags::POLLIN)];
        match poll(&mut watched, PollTimeout::ZERO) {
            Ok(0) => Ok(()),
            Ok(_) => Err(LabError::Interrupted),
            Err(source) => Err(LabError::system("looking for interrupts", source)),
        }
    }
}

impl Drop for InterruptsHeld {
    fn drop(&mut self) {
        if let Err(error) = self.before.thread_set_mask() {
            log::error!("cannot let interrupts through again: {error}");
        }
    }
}

/// Returns the mask of ignored signals, signal 1 lowest, from a process's status
/// (proc_pid_status(5)).
fn ignored_signals(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::raise;

    use super::*;

    #[test]
    fn an_interrupt_is_noticed_without_being_swallowed() {
        let held = InterruptsHeld::new().expect("holding");
        held.check().expect("nothing has come yet");
        raise(Signal::SIGTERM).expect("raise goes to this thread");
        assert!(matches!(held.check(), Err(LabError::Interrupted)));
        assert!(matches!(held.check(), Err(LabError::Interrupted)), "looking must not take it");
        let taken = held.pending.read_signal().expect("readable").expect("it is still there");
        assert_eq!(taken.ssi_signo, Signal::SIGTERM as u32);
        held.check().expect("now it is gone, or dropping would end the test run");
    }

    #[test]
    fn ignored_signals_are_read_from_the_processs_status() {
        let status = "SigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000004002\n";
        assert_eq!(ignored_signals(status), 1 << 12 | 1, "SIGPIPE and SIGHUP");
        assert_eq!(ignored_signals("Name:\tx\n"), 0);
    }
}
