//! The root that this host has asked, or whose session it is in.

use super::{ReceiverEndpoint, ReceiverEvent};
use ethbcast_transport::wire::Frame;
use ethbcast_transport::{Instant, MacAddr};
use std::time::Duration;

/// The root as this host knows it.
#[derive(Clone, Debug)]
pub(super) struct KnownRoot {
    mac: MacAddr,
    session: u32,
    heard_at: Instant,
    /// When its silence is to be spoken of next.
    missed_at: Instant,
}

/// After so much silence of the root its user is told, and again each time after as much.
const MISSED_AFTER: Duration = Duration::from_secs(2);

impl KnownRoot {
    pub(super) fn new(now: Instant, mac: MacAddr, session: u32) -> KnownRoot {
        KnownRoot { mac, session, heard_at: now, missed_at: now + MISSED_AFTER }
    }

    pub(super) fn mac(&self) -> MacAddr {
        self.mac
    }

    pub(super) fn session(&self) -> u32 {
        self.session
    }

    /// Whether a frame is of its session, from its own address.
    pub(super) fn sent(&self, frame: &Frame<'_>) -> bool {
        self.mac == frame.source && self.session == frame.header.session
    }

    /// For how long it has been silent.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        now.since(self.heard_at)
    }

    /// When it will have been silent for so long.
    pub(super) fn silent_at(&self, limit: Duration) -> Instant {
        self.heard_at + limit
    }

    /// When its silence is to be spoken of next.
    pub(super) fn missed_at(&self) -> Instant {
        self.missed_at
    }

    pub(super) fn hear(&mut self, now: Instant) {
        (self.heard_at, self.missed_at) = (now, now + MISSED_AFTER);
    }

    /// Tells of its silence when it is time to.
    pub(super) fn watch(&mut self, now: Instant, limit: Duration, endpoint: &mut ReceiverEndpoint) {
        let silence = now.since(self.heard_at);
        if self.missed_at <= now && silence < limit {
            self.missed_at = now + MISSED_AFTER;
            endpoint.tell(ReceiverEvent::RootSilent { silence, left: limit - silence });
        }
    }
}
