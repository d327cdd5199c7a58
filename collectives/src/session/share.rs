//! What is sent beside the session's main stream: a share of the link while that has frames, afterwards all of it.

use ethbcast_transport::Instant;
use std::time::Duration;

/// Turns that may have been saved up.
const MOST_SAVED: u32 = 32;

/// When the main stream has had nothing to send for so long it is somebody else who holds it up, and the link is free.
const IDLE: Duration = Duration::from_millis(5);

/// Whose turn it is: the main stream's, or that of what is beside it, which gets one frame for each `MAIN_FRAMES` of
/// the other while both have some.
#[derive(Clone, Debug, Default)]
pub(super) struct Share<const MAIN_FRAMES: u32> {
    /// Frames of the main stream since the last beside it.
    saved: u32,
    main_at: Instant,
}

impl<const MAIN_FRAMES: u32> Share<MAIN_FRAMES> {
    /// A frame of the main stream has been sent.
    pub(super) fn main_sent(&mut self, now: Instant) {
        self.main_at = now;
        self.saved = (self.saved + 1).min(MOST_SAVED * MAIN_FRAMES);
    }

    /// Whether what is beside the main stream goes before it.
    pub(super) fn is_due(&self) -> bool {
        self.saved >= MAIN_FRAMES
    }

    /// Whether it may go: in its turn, or because the main stream is idle.
    pub(super) fn may_go(&self, now: Instant) -> bool {
        self.is_due() || self.main_at + IDLE <= now
    }

    /// A frame of it has been sent.
    pub(super) fn take(&mut self) {
        self.saved = self.saved.saturating_sub(MAIN_FRAMES);
    }

    /// When it may go, if that is still to come and the main stream stays idle.
    pub(super) fn free_at(&self, now: Instant) -> Option<Instant> {
        Some(self.main_at + IDLE).filter(|&at| at > now)
    }
}
