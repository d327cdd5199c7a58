//! Between invitation and membership.

use super::{ReceiverConfig, ReceiverEndpoint};
use crate::measure::Responder;
use crate::membership::timers::{TimerTable, Wait};
use crate::membership::timing::jitter;
use crate::session::message::{Message, ViewPart};
use crate::session::view::{Assembler, View};
use ethbcast_transport::wire::{Frame, Rank};
use ethbcast_transport::{Deadline, Instant, MacAddr, Part};

/// Asks to join again and again, until a view names this host; answers the root's short probe meanwhile.
#[derive(Debug)]
pub(super) struct Joining {
    assembler: Assembler,
    responder: Responder,
    timers: TimerTable,
}

impl Joining {
    pub(super) fn new(now: Instant, endpoint: &ReceiverEndpoint) -> Joining {
        let station = endpoint.station();
        let responder = Responder::new(station.identity(0, Rank::NONE), usize::from(station.mtu_bytes), None);
        let mut timers = TimerTable::default();
        timers.set(Wait::Join, now);
        Joining { assembler: Assembler::default(), responder, timers }
    }

    /// Takes a PROBE.
    pub(super) fn on_probe(&mut self, now: Instant, frame: &Frame<'_>) {
        self.responder.handle_frame(now, frame);
    }

    /// Takes a part of a view; the view once it is whole.
    pub(super) fn on_view_part(&mut self, part: &ViewPart) -> Option<View> {
        self.assembler.take(part)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, root: MacAddr, endpoint: &mut ReceiverEndpoint) {
        if !self.timers.take_due(Wait::Join, now) {
            return;
        }
        let ReceiverConfig { station, nonce, free_bytes, timing, .. } = endpoint.config();
        let message = Message::Join {
            nonce: *nonce,
            group: station.group.clone(),
            host: station.host.clone(),
            mtu_bytes: station.mtu_bytes,
            free_bytes: *free_bytes,
            features: 0,
        };
        // At a random moment: requests that collided at the root's port must not collide again.
        let half = timing.join / 2;
        self.timers.set(Wait::Join, now + half + jitter(half, nonce ^ now.as_nanos()));
        endpoint.send(root, &message);
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.responder.poll_transmit(now, buffer)
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.timers.next()
    }
}
