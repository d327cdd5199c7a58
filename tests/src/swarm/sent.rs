//! What one host has sent to another, and what is known of it by acknowledgements.

/// What one host has sent of a stream to one address, and what is known of that.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// By frame: under which stamp it was sent last, 0 for never; and how often it has been shown to be lost since.
    frames: Vec<(u32, u32)>,
    /// The lowest cursor acknowledged to this host.
    pub(super) lacking_from: Option<u64>,
    /// The highest one.
    acknowledged: u64,
    /// The lowest one that came behind a higher one.
    outdated: Option<u64>,
    /// How many frames were sent again under a view because of that.
    believed: (u8, u64),
}

impl Sent {
    /// One past the last frame that was sent.
    pub(super) fn end(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Under which stamp a frame was sent last, and how often it has been shown to be lost since.
    pub(super) fn frame(&self, sequence: u64) -> (u32, u32) {
        self.frames.get(sequence as usize).copied().unwrap_or_default()
    }

    /// Notes that of a frame.
    pub(super) fn set(&mut self, sequence: u64, state: (u32, u32)) {
        let at = sequence as usize;
        if self.frames.len() <= at {
            self.frames.resize(at + 1, (0, 0));
        }
        self.frames[at] = state;
    }

    /// An acknowledgement of everything below `cursor` has come.
    pub(super) fn on_cursor(&mut self, cursor: u64) {
        self.lacking_from = Some(self.lacking_from.map_or(cursor, |known| known.min(cursor)));
        self.acknowledged = self.acknowledged.max(cursor);
        if cursor < self.acknowledged {
            self.on_outdated(cursor);
        }
    }

    /// One of everything below `cursor` comes behind newer ones.
    pub(super) fn on_outdated(&mut self, cursor: u64) {
        self.outdated = Some(self.outdated.map_or(cursor, |known| known.min(cursor)));
    }

    /// Whether a sender under this view may have believed an old acknowledgement that lacks a frame: after the first
    /// view, and no more than `most` frames in each.
    pub(super) fn may_believe(&self, epoch: u8, sequence: u64, most: u64) -> bool {
        let frames = if self.believed.0 == epoch { self.believed.1 } else { 0 };
        epoch > 1 && frames < most && self.outdated.is_some_and(|cursor| cursor <= sequence)
    }

    /// A frame was sent again under this view because of that.
    pub(super) fn believe(&mut self, epoch: u8) {
        self.believed = (epoch, if self.believed.0 == epoch { self.believed.1 + 1 } else { 1 });
    }
}
