//! What can be done to a host, its cable and its disk.

use std::time::Duration;

use ethbcast_tests::lab::{Way, Which};

/// How receivers die that do not die alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Any of them, at once.
    Together,
    /// Neighbours in a chain, at once.
    Neighbours,
    /// Neighbours in a chain, each 0.1 s after the one before.
    InARow,
    /// Any of them, each at a moment of its own.
    Apart,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    /// Nothing.
    Nothing,
    /// Frames are lost on the host's cable, this fraction of them.
    Frames(Which, Way, f64),
    /// The switch's port goes down; the host's interface loses its carrier.
    Port,
    /// The interface is switched off.
    Interface,
    /// SIGSTOP.
    Stopped,
    /// SIGKILL to so many receivers.
    Killed(usize, Spread),
    /// SIGKILL to all that runs on the host at once, a watcher of the process too.
    PoweredOff,
    /// Who reads the receiver's stdout takes so many bytes per second.
    SlowReader(u64),
    /// Who reads the receiver's stdout takes so many bytes and then no more.
    StoppedReader(u64),
    /// The process is let run for one part in so many of the time.
    LittleCpu(u32),
}

impl Trouble {
    /// Whether the host's receiver writes to a pipe.
    pub fn is_of_reader(self) -> bool {
        matches!(self, Trouble::SlowReader(_) | Trouble::StoppedReader(_))
    }

    /// Whether the host's process cannot be expected to end once this has come over it, unless it is taken back.
    pub fn ends_nothing(self) -> bool {
        matches!(self, Trouble::Stopped)
    }
}

/// How long neighbours that die in a row wait for each other.
pub const IN_A_ROW: Duration = Duration::from_millis(100);
