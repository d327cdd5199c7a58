//! A pending join request: the phase between announcement and membership.

use super::roots::HeardRoot;
use super::{ReceiverConfig, ReceiverEndpoint};
use crate::measure::{FIRST_PING, Responder, carries};
use crate::membership::timers::{TimerTable, Wait};
use crate::membership::timing::jitter;
use crate::session::message::ViewPart;
use crate::session::view::{Assembler, View};
use ethbcast_transport::wire::{Frame, Rank};
use ethbcast_transport::{Deadline, Instant, MacAddr, Part};
use std::time::Duration;

/// Silence after which another root is asked. A live root sends a sign of life every second.
const ANSWER_LIMIT: Duration = Duration::from_millis(2500);

#[derive(Clone, Debug)]
pub(super) struct Joining {
    root: HeardRoot,
    assembler: Assembler,
    responder: Responder,
    /// Time of the root's last proof of life, or of the first join request. Its messages to others
    /// and earlier ones prove nothing: they may be replayed.
    answered_at: Instant,
    answered: bool,
    /// Number of the PROBE that was the last proof. A root's PROBEs have increasing numbers, so a
    /// replayed one proves nothing.
    proof: u32,
    timers: TimerTable,
}

impl Joining {
    pub(super) fn new(now: Instant, root: HeardRoot, proof: u32, endpoint: &ReceiverEndpoint) -> Joining {
        let station = endpoint.station();
        let responder = Responder::new(station.identity(0, Rank::NONE), usize::from(station.mtu_bytes), None)
            .with_processors(endpoint.config().processors);
        let mut timers = TimerTable::default();
        timers.set(Wait::Join, now);
        let (assembler, answered_at, answered) = (Assembler::default(), now, false);
        Joining { root, assembler, responder, answered_at, answered, proof, timers }
    }

    pub(super) fn root(&self) -> &HeardRoot {
        &self.root
    }

    pub(super) fn proof(&self) -> u32 {
        self.proof
    }

    pub(super) fn view_bytes(&self) -> usize {
        self.assembler.bytes()
    }

    pub(super) fn deadline(&self, limit: Duration) -> Option<Instant> {
        self.answered.then(|| self.answered_at + limit)
    }

    pub(super) fn is_in_vain(&self, now: Instant) -> bool {
        now.since(self.answered_at) >= ANSWER_LIMIT
    }

    /// Handles a PROBE; one that carries this host's `nonce` proves that the root is alive. A PROBE
    /// with another nonce gets no answer, so that a request forged in this host's name is not
    /// admitted.
    pub(super) fn on_probe(&mut self, now: Instant, frame: &Frame<'_>, nonce: u64) {
        if carries(frame, nonce) {
            if frame.header.stamp > self.proof {
                (self.answered_at, self.answered, self.proof) = (now, true, frame.header.stamp);
            }
        } else if frame.header.stamp >= FIRST_PING {
            return;
        }
        self.echo_probe(now, frame);
    }

    pub(super) fn echo_probe(&mut self, now: Instant, frame: &Frame<'_>) {
        self.responder.handle_frame(now, frame);
    }

    pub(super) fn on_view_part(&mut self, part: &ViewPart) -> Option<View> {
        self.assembler.take(part)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, root: MacAddr, endpoint: &mut ReceiverEndpoint) {
        if !self.timers.take_due(Wait::Join, now) {
            return;
        }
        let ReceiverConfig { nonce, timing, .. } = endpoint.config();
        let message = endpoint.config().request();
        // At a random moment, so that requests that collided at the root's port do not collide
        // again.
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
