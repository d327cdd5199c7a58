//! What a host keeps beside its streams that others can make it keep (docs/protocol/limits.md §12).

use std::ops::Add;

/// Control messages, hosts that are no members, and views: what is kept of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlMemory {
    /// Messages that wait to be sent.
    pub waiting_frames: usize,
    /// Their bytes, without headers.
    pub waiting_bytes: usize,
    /// Entries for hosts that are no members: who asks to join, whose way is checked, who was turned away.
    pub stranger_entries: usize,
    /// Bytes of the parts of views that are not whole.
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
