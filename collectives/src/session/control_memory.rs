//! Amount of state that other hosts can make a host keep beside its streams (docs/protocol/limits.md §12).

use std::ops::Add;

/// State kept for control messages, non-members and views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlMemory {
    /// Messages that wait to be sent.
    pub waiting_frames: usize,
    /// Bytes of these messages, without headers.
    pub waiting_bytes: usize,
    /// Entries for non-members: candidates, path checks, and refused hosts.
    pub stranger_entries: usize,
    /// Bytes of the parts of incomplete views.
    pub view_bytes: usize,
}

impl Add for ControlMemory {
    type Output = ControlMemory;

    fn add(self, other: ControlMemory) -> ControlMemory {
        ControlMemory {
            waiting_frames: self.waiting_frames + other.waiting_frames,
            waiting_bytes: self.waiting_bytes + other.waiting_bytes,
            stranger_entries: self.stranger_entries + other.stranger_entries,
            view_bytes: self.view_bytes + other.view_bytes,
        }
    }
}
