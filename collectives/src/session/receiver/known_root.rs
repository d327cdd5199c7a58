//! The root that this host has asked, or whose session it is in.

use super::liveness::LivenessChallenge;
use super::{ReceiverConfig, ReceiverEndpoint, ReceiverEvent};
use crate::session::message::Message;
use ethbcast_transport::wire::Frame;
use ethbcast_transport::{Instant, MacAddr};
use std::time::Duration;

#[derive(Clone, Debug)]
pub(super) struct KnownRoot {
    mac: MacAddr,
    session: u32,
    heard_at: Instant,
    proof: LivenessChallenge,
    spoken_at: Instant,
}

/// Silence of the root after which the user is told, and the interval of further reports.
const MISSED_AFTER: Duration = Duration::from_secs(2);

impl KnownRoot {
    pub(super) fn new(now: Instant, mac: MacAddr, session: u32, config: &ReceiverConfig) -> KnownRoot {
        let proof = LivenessChallenge::new(now, config.secret, &config.timing);
        KnownRoot { mac, session, heard_at: now, proof, spoken_at: now }
    }

    pub(super) fn mac(&self) -> MacAddr {
        self.mac
    }

    pub(super) fn session(&self) -> u32 {
        self.session
    }

    pub(super) fn sent(&self, frame: &Frame<'_>) -> bool {
        self.mac == frame.source && self.session == frame.header.session
    }

    /// Time since the root was last heard, or since a liveness challenge went unanswered. Frames in
    /// the root's name may be replayed.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        now.since(self.silent_since())
    }

    pub(super) fn is_dead(&self, now: Instant) -> bool {
        self.silence(now) >= self.proof.limit()
    }

    fn silent_since(&self) -> Instant {
        self.proof.pending_since().map_or(self.heard_at, |asked_at| asked_at.min(self.heard_at))
    }

    fn missed_at(&self) -> Instant {
        self.spoken_at.max(self.silent_since()) + MISSED_AFTER
    }

    pub(super) fn look_at(&self) -> Instant {
        self.missed_at().min(self.silent_since() + self.proof.limit()).min(self.proof.due_at())
    }

    pub(super) fn on_frame(&mut self, now: Instant) {
        self.heard_at = now;
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.proof.prove(now);
    }

    pub(super) fn on_response(&mut self, now: Instant, words: &[u64]) {
        self.proof.on_response(now, words);
    }

    /// Sends a liveness challenge and reports silence when due; `frames` is the number of stream
    /// frames received.
    pub(super) fn watch(&mut self, now: Instant, frames: u64, endpoint: &mut ReceiverEndpoint) {
        self.proof.on_frames(now, frames);
        if let Some(challenge) = self.proof.poll(now) {
            endpoint.send(self.mac, &Message::Challenge(challenge));
        }
        let (silence, limit) = (self.silence(now), self.proof.limit());
        if self.missed_at() <= now && silence < limit {
            self.spoken_at = now;
            endpoint.push_event(ReceiverEvent::RootSilent { silence, left: limit - silence });
        }
    }
}
