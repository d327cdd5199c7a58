//! The receiver's boundary to its driver: frames in, frames out, timers.

use super::{End, Phase, Receiver};
use crate::membership::timing::{jitter, take_due};
use crate::session::blocks::Streams;
use crate::session::message::{Message, State};
use ethbcast_transport::wire::{self, Frame, Kind};
use ethbcast_transport::{Deadline, Instant, Machine};

impl Receiver {
    fn state(&self) -> State {
        let Some(streams) = &self.streams else { return State::Alive };
        if self.ended && self.verdict.is_none() {
            State::Verifying
        } else if streams.backlog_frames() > streams.slots() / 2 {
            State::Blocked
        } else if streams.backlog_frames() == 0 && !self.ended {
            State::Starved
        } else {
            State::Alive
        }
    }

    fn watch_root(&mut self) {
        let silence = self.root.as_ref().map(|root| self.now.since(root.heard_at));
        match (&self.phase, silence) {
            (Phase::Listening, _) if self.config.patience.is_some_and(|patience| self.now.since(self.began) >= patience) => {
                self.end(End::NobodyThere);
            }
            (Phase::Joining, Some(silence)) if silence >= self.config.timing.dead => {
                // The root went away before it began; there may be another.
                self.root = None;
                self.join_due = None;
                self.phase = Phase::Listening;
            }
            (Phase::Running, Some(silence)) if silence >= self.config.timing.dead => {
                let end = match (&self.verdict, self.confirmed) {
                    (_, true) => End::Confirmed,
                    (Some(_), false) => End::Unconfirmed,
                    (None, false) => End::RootSilent,
                };
                self.end(end);
            }
            _ => {}
        }
        if self.leaving_until.is_some_and(|until| until <= self.now) {
            self.end(if self.confirmed { End::Confirmed } else { End::Unconfirmed });
        }
    }

    fn deadlines(&self) -> impl Iterator<Item = Deadline> + '_ {
        let live = !matches!(self.phase, Phase::Ended);
        let patience =
            self.config.patience.filter(|_| matches!(self.phase, Phase::Listening)).map(|patience| self.began + patience);
        let dead = self.root.as_ref().filter(|_| live).map(|root| root.heard_at + self.config.timing.dead);
        let stream = self.streams.as_ref().filter(|_| live).and_then(|streams| streams.deadline(self.now));
        [
            (self.join_due, crate::timer::JOIN),
            (self.ready_due.filter(|_| live), crate::timer::VIEW),
            (self.status_due, crate::timer::STATUS),
            (self.done_due, crate::timer::VERDICT),
            (self.leaving_until, crate::timer::VERDICT),
            (patience, crate::timer::ANNOUNCE),
            (dead, crate::timer::DEAD),
        ]
        .into_iter()
        .filter_map(|(at, why)| at.map(|at| Deadline { at, why }))
        .chain(stream)
    }

    fn on_session_frame(&mut self, frame: &Frame<'_>) {
        match frame.header.kind {
            Kind::DATA | Kind::ACK | Kind::HEARTBEAT => {
                if let (Some(streams), Phase::Running) = (&mut self.streams, &self.phase) {
                    streams.on_frame(self.now, frame);
                    for rank in streams.take_orphans() {
                        self.send(&Message::Orphan { rank });
                    }
                }
            }
            crate::measure::kind::PROBE if matches!(self.phase, Phase::Joining) => self.responder.on_frame(self.now, frame),
            kind => match Message::decode(kind, frame.payload) {
                Some(message) => {
                    self.stats.received += 1;
                    self.on_control(message);
                }
                None => self.stats.malformed += 1,
            },
        }
    }
}

impl Machine for Receiver {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        self.now = now;
        let Ok(frame) = wire::parse(frame) else {
            self.stats.malformed += 1;
            return;
        };
        if frame.header.kind == crate::session::kind::ANNOUNCE && matches!(self.phase, Phase::Listening) {
            match Message::decode(crate::session::kind::ANNOUNCE, frame.payload) {
                Some(message) => self.on_announce(&frame, &message),
                None => self.stats.malformed += 1,
            }
            return;
        }
        let Some(root) = self.root.as_mut().filter(|root| root.session == frame.header.session) else {
            self.stats.strangers += 1;
            return;
        };
        if frame.source == root.mac {
            root.heard_at = now;
        }
        let from_root = frame.source == root.mac;
        let member = self.view.as_ref().and_then(|view| view.members.get(usize::from(frame.header.rank)));
        let from_member = member.is_some_and(|member| member.mac == frame.source);
        let stream_frame = matches!(frame.header.kind, Kind::DATA | Kind::ACK | Kind::HEARTBEAT);
        if !(from_root || stream_frame && from_member) {
            self.stats.strangers += 1;
            return;
        }
        self.on_session_frame(&frame);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if take_due(&mut self.join_due, now) {
            let config = &self.config;
            let message = Message::Join {
                nonce: config.nonce,
                group: config.station.group.clone(),
                host: config.station.host.clone(),
                mtu_bytes: config.station.mtu_bytes,
                free_bytes: config.free_bytes,
            };
            // Not all at the same moment again, or the same ones would go under in the root's port each time.
            let half = config.timing.join / 2;
            self.join_due = Some(now + half + jitter(half, config.nonce ^ now.as_nanos()));
            self.send(&message);
        }
        if take_due(&mut self.ready_due, now) {
            self.confirm_view();
        }
        if take_due(&mut self.status_due, now) {
            let frames = self.streams.as_ref().map_or(0, |streams| streams.frames() - streams.backlog_frames());
            self.send(&Message::Status { state: self.state(), frames });
            self.status_due = Some(now + self.config.timing.status);
        }
        if let (true, Some(verdict)) = (take_due(&mut self.done_due, now), self.verdict.clone()) {
            self.send(&verdict);
            self.done_due = Some(now + self.config.timing.verdict);
        }
        if let (Some(streams), Phase::Running) = (&mut self.streams, &self.phase) {
            streams.on_timeout(now);
        }
        self.watch_root();
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.now = now;
        if let Some(streams) = &mut self.streams {
            streams.settle_consumed();
        }
        if let Some(length) = self.outbox.poll(&self.config.station, &mut self.stats, buffer) {
            return Some(length);
        }
        if matches!(self.phase, Phase::Joining) {
            return self.responder.poll(now, buffer);
        }
        let running = matches!(self.phase, Phase::Running);
        self.streams.as_mut().filter(|_| running)?.poll(now, buffer)
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        self.deadlines().min()
    }
    fn is_urgent(&self) -> bool {
        self.streams.as_ref().is_some_and(Streams::is_urgent)
    }
}
