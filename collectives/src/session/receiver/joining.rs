//! Between invitation and membership.

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

/// A root that is alive lets those who ask know every second: one that has not for so long gives way to another.
const ANSWER_LIMIT: Duration = Duration::from_millis(2500);

/// Asks to join again and again, until a view names this host; answers the root's probes meanwhile.
#[derive(Clone, Debug)]
pub(super) struct Joining {
    root: HeardRoot,
    assembler: Assembler,
    responder: Responder,
    /// When the root last proved that it lives, or was asked. What it says to others, or has said before, proves
    /// nothing: it may be replayed.
    answered_at: Instant,
    answered: bool,
    /// The number of the PROBE that proved it: of a root each has a higher one than those before, and what is said
    /// again proves nothing.
    proof: u32,
    timers: TimerTable,
}

impl Joining {
    /// Asks a root that has proved so far that it lives.
    pub(super) fn new(now: Instant, root: HeardRoot, proof: u32, endpoint: &ReceiverEndpoint) -> Joining {
        let station = endpoint.station();
        let responder = Responder::new(station.identity(0, Rank::NONE), usize::from(station.mtu_bytes), None)
            .with_processors(endpoint.config().processors);
        let mut timers = TimerTable::default();
        timers.set(Wait::Join, now);
        let (assembler, answered_at, answered) = (Assembler::default(), now, false);
        Joining { root, assembler, responder, answered_at, answered, proof, timers }
    }

    /// Who was asked.
    pub(super) fn root(&self) -> &HeardRoot {
        &self.root
    }

    /// How far the root has proved that it lives.
    pub(super) fn proof(&self) -> u32 {
        self.proof
    }

    /// Bytes of the parts of views that are here.
    pub(super) fn view_bytes(&self) -> usize {
        self.assembler.bytes()
    }

    /// Until when its last proof that it lives is worth something, if it is worth so much.
    pub(super) fn answered_until(&self, limit: Duration) -> Option<Instant> {
        self.answered.then(|| self.answered_at + limit)
    }

    /// Whether the root has not answered for so long that another may be asked.
    pub(super) fn is_in_vain(&self, now: Instant) -> bool {
        now.since(self.answered_at) >= ANSWER_LIMIT
    }

    /// Takes a PROBE; one that carries this host's `nonce` proves that the root lives. One for somebody else at this
    /// address has no answer: who asked in this host's name is not to be let in because this host is there.
    pub(super) fn on_probe(&mut self, now: Instant, frame: &Frame<'_>, nonce: u64) {
        if carries(frame, nonce) {
            if frame.header.stamp > self.proof {
                (self.answered_at, self.answered, self.proof) = (now, true, frame.header.stamp);
            }
        } else if frame.header.stamp >= FIRST_PING {
            return;
        }
        self.answer_probe(now, frame);
    }

    /// Sends back what a PROBE asks for.
    pub(super) fn answer_probe(&mut self, now: Instant, frame: &Frame<'_>) {
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
        let ReceiverConfig { nonce, timing, .. } = endpoint.config();
        let message = endpoint.config().request();
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
