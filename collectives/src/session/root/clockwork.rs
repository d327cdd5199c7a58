//! The root's boundary to its driver: frames in, frames out, timers.

use super::{Phase, Root};
use crate::measure::Prober;
use crate::membership::timing::take_due;
use crate::session::blocks::Streams;
use crate::session::message::{Message, State};
use ethbcast_transport::wire::{self, Kind};
use ethbcast_transport::{Deadline, Instant, Machine};

impl Root {
    fn deadlines(&self) -> impl Iterator<Item = Deadline> + '_ {
        let running = matches!(self.phase, Phase::Running { .. });
        let gathering = matches!(self.phase, Phase::Gathering(_)) && self.prober.is_none();
        let silence = running.then(|| self.roster.next_silence()).flatten();
        let patience = gathering.then(|| self.began + self.config.wanted.patience);
        let stream = self.streams.as_ref().filter(|_| running).and_then(|streams| streams.deadline(self.now));
        [
            (self.announce_due, crate::timer::ANNOUNCE),
            (patience, crate::timer::JOIN),
            (self.view_due, crate::timer::VIEW),
            (self.status_due, crate::timer::STATUS),
            (self.verdict_due, crate::timer::VERDICT),
            (silence, crate::timer::DEAD),
        ]
        .into_iter()
        .filter_map(|(at, why)| at.map(|at| Deadline { at, why }))
        .chain(stream)
        .chain(self.prober.as_ref().and_then(Prober::deadline))
    }

    /// Says who has been heard, or the last word once more.
    fn on_verdict_timer(&mut self) {
        let left = match &mut self.phase {
            Phase::Running { .. } => {
                let heard = self.roster.heard();
                self.send_to_group(&Message::Verdict { over: false, heard });
                return;
            }
            Phase::Closing { left } => left,
            Phase::Gathering(_) | Phase::Ended => return,
        };
        if *left == 0 {
            self.phase = Phase::Ended;
            return;
        }
        *left -= 1;
        if let Some(message) = self.last_word.clone() {
            self.send_to_group(&message);
        }
        self.verdict_due = Some(self.now + self.config.timing.verdict / 4);
    }
}

impl Machine for Root {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        self.now = now;
        let Ok(frame) = wire::parse(frame) else {
            self.stats.malformed += 1;
            return;
        };
        // A receiver that has not joined yet knows our session number from the invitation.
        if frame.header.session != self.config.session {
            self.stats.strangers += 1;
            return;
        }
        if let (crate::measure::kind::ECHO | crate::measure::kind::REPORT, Some(prober)) = (frame.header.kind, &mut self.prober) {
            prober.on_frame(now, &frame);
            self.watch_probe();
            return;
        }
        let member = self.view.as_ref().and_then(|view| view.members.get(usize::from(frame.header.rank)));
        let member = member.is_some_and(|member| member.mac == frame.source);
        if frame.header.kind != crate::session::kind::JOIN && !member {
            self.stats.strangers += 1;
            return;
        }
        if member {
            self.roster.hear(now, frame.header.rank);
        }
        match frame.header.kind {
            Kind::DATA | Kind::ACK | Kind::HEARTBEAT => {
                if let Some(streams) = &mut self.streams {
                    streams.on_frame(now, &frame);
                }
                self.lose_orphans();
            }
            kind => match Message::decode(kind, frame.payload) {
                Some(message) => self.on_control(&frame, message),
                None => self.stats.malformed += 1,
            },
        }
        self.flush_end();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if take_due(&mut self.announce_due, now) {
            self.announce();
            // Who comes too late hears that there is a session, asks, and is told so.
            let rarer = if matches!(self.phase, Phase::Gathering(_)) { 1 } else { 5 };
            self.announce_due = Some(now + self.config.timing.announce * rarer);
        }
        if let Some(prober) = &mut self.prober {
            prober.on_timeout(now);
            self.watch_probe();
        }
        self.watch_gathering();
        if take_due(&mut self.view_due, now) {
            self.repeat_view();
        }
        if take_due(&mut self.status_due, now) {
            self.send_to_group(&Message::Status { state: State::Alive, frames: 0 });
            self.status_due = Some(now + self.config.timing.status);
        }
        if take_due(&mut self.verdict_due, now) {
            self.on_verdict_timer();
        }
        if matches!(self.phase, Phase::Running { .. }) {
            self.watch_silence();
            if let Some(streams) = &mut self.streams {
                streams.on_timeout(now);
            }
        }
        self.flush_end();
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.now = now;
        if let Some(length) = self.outbox.poll(&self.config.station, &mut self.stats, buffer) {
            return Some(length);
        }
        if let Some(prober) = &mut self.prober {
            return prober.poll(now, buffer);
        }
        if !matches!(self.phase, Phase::Running { flowing: true }) {
            return None;
        }
        let streams = self.streams.as_mut()?;
        let length = streams.poll(now, buffer)?;
        if self.first_data.is_none() && streams.stats().data_sent > 0 {
            self.first_data = Some(now);
        }
        Some(length)
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        self.deadlines().min()
    }
    fn is_urgent(&self) -> bool {
        self.streams.as_ref().is_some_and(Streams::is_urgent)
    }
}
