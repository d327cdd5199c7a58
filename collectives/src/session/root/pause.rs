//! A pause of the main stream, in which all members catch up with what was sent.

#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    wanted: bool,
    /// Frames of a segment; relays forward whole segments only.
    segment_frames: u64,
    /// One past the last frame of the last message, if the stream consists of messages; a pause
    /// begins only between messages.
    message_end: Option<u64>,
}

impl Pause {
    pub(super) fn new(segment_frames: u64) -> Pause {
        Pause { wanted: false, segment_frames: segment_frames.max(1), message_end: None }
    }

    pub(super) fn has_messages(&self) -> bool {
        self.message_end.is_some()
    }

    pub(super) fn on_message_end(&mut self, next: u64) {
        self.message_end = Some(next);
    }

    pub(super) fn set(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    pub(super) fn holds(&self, next: u64) -> bool {
        self.wanted && self.message_end.map_or(next.is_multiple_of(self.segment_frames), |end| end == next)
    }
}
