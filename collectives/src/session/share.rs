//! Scheduling of traffic beside the main stream: it gets a share of the link while the main stream
//! has frames, afterwards all of it.

use ethbcast_transport::Instant;
use std::time::Duration;

/// Maximum number of turns that may be saved up.
const MAX_SAVED: u32 = 32;

/// Time without main-stream frames after which another host must be the bottleneck, and the link
/// counts as free.
const IDLE: Duration = Duration::from_millis(5);

/// Share of the traffic beside the main stream: one frame per `MAIN_FRAMES` of the main stream,
/// while both have some.
#[derive(Clone, Debug, Default)]
pub(super) struct Share<const MAIN_FRAMES: u32> {
    saved: u32,
    main_at: Instant,
}

impl<const MAIN_FRAMES: u32> Share<MAIN_FRAMES> {
    pub(super) fn main_sent(&mut self, now: Instant) {
        self.main_at = now;
        self.saved = (self.saved + 1).min(MAX_SAVED * MAIN_FRAMES);
    }

    pub(super) fn is_due(&self) -> bool {
        self.saved >= MAIN_FRAMES
    }

    pub(super) fn may_go(&self, now: Instant) -> bool {
        self.is_due() || self.main_at + IDLE <= now
    }

    pub(super) fn take(&mut self) {
        self.saved = self.saved.saturating_sub(MAIN_FRAMES);
    }

    pub(super) fn free_at(&self, now: Instant) -> Option<Instant> {
        Some(self.main_at + IDLE).filter(|&at| at > now)
    }
}
