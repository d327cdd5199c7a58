//! Troubles of a host, its cable and its disk.

use std::time::Duration;

use ethbcast_tests::lab::{Way, Which};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    Together,
    Neighbours,
    /// Neighbours in a chain, [`IN_A_ROW`] apart.
    InARow,
    Apart,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    Nothing,
    Frames(Which, Way, f64),
    Port,
    Interface,
    Stopped,
    Killed(usize, Spread),
    /// SIGKILL to all processes on the host at once, including a watcher.
    PoweredOff,
    /// The reader of the receiver's stdout takes this number of bytes per second.
    SlowReader(u64),
    /// The reader of the receiver's stdout stops after this number of bytes.
    StoppedReader(u64),
    /// The process runs for one part in this number of the time.
    LittleCpu(u32),
}

impl Trouble {
    pub fn is_of_reader(self) -> bool {
        matches!(self, Trouble::SlowReader(_) | Trouble::StoppedReader(_))
    }

    /// Whether the host's process cannot end while this trouble lasts.
    pub fn ends_nothing(self) -> bool {
        matches!(self, Trouble::Stopped)
    }
}

pub const IN_A_ROW: Duration = Duration::from_millis(100);
