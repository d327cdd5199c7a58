//! Frames that one host has sent to another, and their state by acknowledgements.

#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Each frame's last stamp, 0 for never, and how often it was proved lost
    /// since.
    frames: Vec<(u32, u32)>,
    pub(super) lacking_from: Option<u64>,
    acknowledged: u64,
    outdated: Option<u64>,
    /// View, and frames retransmitted under it because of an outdated acknowledgement.
    believed: (u8, u64),
}

impl Sent {
    pub(super) fn end(&self) -> u64 {
        self.frames.len() as u64
    }

    pub(super) fn frame(&self, sequence: u64) -> (u32, u32) {
        self.frames.get(sequence as usize).copied().unwrap_or_default()
    }

    pub(super) fn set(&mut self, sequence: u64, state: (u32, u32)) {
        let at = sequence as usize;
        if self.frames.len() <= at {
            self.frames.resize(at + 1, (0, 0));
        }
        self.frames[at] = state;
    }

    pub(super) fn on_cursor(&mut self, cursor: u64) {
        self.lacking_from = Some(self.lacking_from.map_or(cursor, |known| known.min(cursor)));
        self.acknowledged = self.acknowledged.max(cursor);
        if cursor < self.acknowledged {
            self.on_outdated(cursor);
        }
    }

    pub(super) fn on_outdated(&mut self, cursor: u64) {
        self.outdated = Some(self.outdated.map_or(cursor, |known| known.min(cursor)));
    }

    /// Whether a sender may have trusted an outdated acknowledgement: only after the first view,
    /// and for at most `most` frames in each.
    pub(super) fn may_believe(&self, epoch: u8, sequence: u64, most: u64) -> bool {
        let frames = if self.believed.0 == epoch { self.believed.1 } else { 0 };
        epoch > 1 && frames < most && self.outdated.is_some_and(|cursor| cursor <= sequence)
    }

    pub(super) fn believe(&mut self, epoch: u8) {
        self.believed = (epoch, if self.believed.0 == epoch { self.believed.1 + 1 } else { 1 });
    }
}
