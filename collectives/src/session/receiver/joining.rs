//! Between invitation and membership.

use super::ReceiverEndpoint;
use crate::measure::Responder;
use crate::membership::presence::LastHeard;
use crate::membership::timers::{TimerTable, Wait};
use crate::membership::timing::jitter;
use crate::session::message::{Message, ViewPart};
use crate::session::view::{Assembler, View};
use ethbcast_transport::wire::{Frame, Header};
use ethbcast_transport::{Deadline, Instant, MacAddr, Part};
use std::time::Duration;

/// The root as a receiver knows it.
#[derive(Clone, Debug)]
pub(super) struct KnownRoot {
    mac: MacAddr,
    session: u32,
    heard: LastHeard,
}

impl KnownRoot {
    /// The one that sent this invitation.
    pub(super) fn new(now: Instant, invitation: &Frame<'_>) -> KnownRoot {
        KnownRoot { mac: invitation.source, session: invitation.header.session, heard: LastHeard::new(now) }
    }

    pub(super) fn mac(&self) -> MacAddr {
        self.mac
    }

    pub(super) fn session(&self) -> u32 {
        self.session
    }

    /// Whether a frame is the root's; if so, it has been heard.
    pub(super) fn hear(&mut self, now: Instant, frame: &Frame<'_>) -> bool {
        let is_root = frame.header.session == self.session && frame.source == self.mac;
        if is_root {
            self.heard.hear(now);
        }
        is_root
    }

    pub(super) fn silence(&self, now: Instant) -> Duration {
        self.heard.silence(now)
    }

    /// When it counts as dead.
    pub(super) fn deadline(&self, dead_after: Duration) -> Deadline {
        Wait::Silence.at(self.heard.silent_for_at(dead_after))
    }
}

/// Asks to join again and again, until a view names this host; answers the root's short probe meanwhile.
#[derive(Debug)]
pub(super) struct Joining {
    root: KnownRoot,
    assembler: Assembler,
    responder: Responder,
    timers: TimerTable,
}

impl Joining {
    pub(super) fn new(now: Instant, root: KnownRoot, endpoint: &ReceiverEndpoint) -> Joining {
        let station = endpoint.station();
        let responder = Responder::new(station.identity(0, Header::NO_RANK), usize::from(station.mtu_bytes), None);
        let mut timers = TimerTable::default();
        timers.set(Wait::Join, now);
        Joining { root, assembler: Assembler::default(), responder, timers }
    }

    pub(super) fn root(&self) -> &KnownRoot {
        &self.root
    }

    /// Whether a frame is the root's; if so, it has been heard.
    pub(super) fn hear(&mut self, now: Instant, frame: &Frame<'_>) -> bool {
        self.root.hear(now, frame)
    }

    /// Takes a PROBE.
    pub(super) fn on_probe(&mut self, now: Instant, frame: &Frame<'_>) {
        self.responder.handle_frame(now, frame);
    }

    /// Takes a part of a view; the view once it is whole.
    pub(super) fn on_view_part(&mut self, part: &ViewPart) -> Option<View> {
        self.assembler.take(part)
    }

    /// Whether the root is still there; one that went away before it began leaves room for another.
    #[must_use]
    pub(super) fn handle_timeout(&mut self, now: Instant, endpoint: &mut ReceiverEndpoint) -> bool {
        let config = endpoint.config();
        let (dead, half, nonce) = (config.timing.dead, config.timing.join / 2, config.nonce);
        if self.timers.take_due(Wait::Join, now) {
            let station = &config.station;
            let message = Message::Join {
                nonce,
                group: station.group.clone(),
                host: station.host.clone(),
                mtu_bytes: station.mtu_bytes,
                free_bytes: config.free_bytes,
            };
            // Not all at the same moment again, or the same ones would go under in the root's port each time.
            self.timers.set(Wait::Join, now + half + jitter(half, nonce ^ now.as_nanos()));
            endpoint.send(self.root.mac, &message);
        }
        self.root.silence(now) < dead
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.responder.poll_transmit(now, buffer)
    }

    pub(super) fn poll_timeout(&self, dead_after: Duration) -> Option<Deadline> {
        self.timers.next().into_iter().chain([self.root.deadline(dead_after)]).min()
    }
}
