//! When the root takes nothing new for a while: everybody is to get what was sent before.

/// Whether nothing new is taken, and where that may begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    wanted: bool,
    /// Relays pass on whole segments only, of so many frames.
    segment_frames: u64,
    /// One past the last frame of the last message, if the stream consists of messages: they are not torn apart.
    message_end: Option<u64>,
}

impl Pause {
    /// None, in a stream with segments of so many frames.
    pub(super) fn new(segment_frames: u64) -> Pause {
        Pause { wanted: false, segment_frames: segment_frames.max(1), message_end: None }
    }

    /// Whether the stream consists of messages.
    pub(super) fn has_messages(&self) -> bool {
        self.message_end.is_some()
    }

    /// A message ends before frame `next`.
    pub(super) fn on_message_end(&mut self, next: u64) {
        self.message_end = Some(next);
    }

    /// Begins or ends it.
    pub(super) fn set(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    /// Whether frame `next` has to wait.
    pub(super) fn holds(&self, next: u64) -> bool {
        self.wanted && self.message_end.map_or(next.is_multiple_of(self.segment_frames), |end| end == next)
    }
}
