//! The machine of a member: frames and time in, frames and deadlines out.

use super::Member;
use crate::communicator::body::Call;
use crate::communicator::config::period;
use ethbcast_transport::wire::{self, Frame, Header, Kind};
use ethbcast_transport::{Deadline, Instant, Machine};

impl Machine for Member {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        let Ok(frame) = wire::parse(frame) else {
            self.stats.malformed += 1;
            return;
        };
        if frame.header.kind == crate::communicator::kind::CALL {
            return self.on_call(now, &frame);
        }
        let Header { session, rank, .. } = frame.header;
        if self.membership.is_none() && self.refusal.is_none() && self.assembly.is_of_session(session, rank, frame.source) {
            // Its sender has heard that all have this list.
            self.join(now);
        }
        match &mut self.membership {
            Some(membership) => membership.on_frame(now, &frame),
            None => self.stats.strangers += 1,
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(membership) = &mut self.membership {
            return membership.on_timeout(now);
        }
        if self.refusal.is_some() || self.given_up {
            return;
        }
        match self.assembly.on_timeout(now) {
            Err(refusal) => self.refusal = Some(refusal),
            Ok(()) => self.call_pending |= self.assembly.take_due(now),
        }
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        if std::mem::take(&mut self.call_pending) {
            self.stats.calls_sent += 1;
            let body = self.assembly.call(self.membership.is_some()).encode();
            return Some(self.write(crate::communicator::kind::CALL, 0, Header::NO_RANK, &body, buffer));
        }
        let membership = self.membership.as_deref_mut()?;
        let (session, rank) = (membership.roll.session(), membership.rank());
        if let Some(sign) = membership.take_sign() {
            return Some(self.write(crate::communicator::kind::ALIVE, session, rank, &sign.encode(), buffer));
        }
        if let Some(length) = membership.poll(now, buffer) {
            return Some(length);
        }
        let bye = membership.take_bye()?;
        Some(self.write(crate::communicator::kind::BYE, session, rank, &bye.encode(), buffer))
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        match &self.membership {
            Some(membership) => membership.poll_timeout(now),
            None if self.refusal.is_some() || self.given_up => None,
            None => Some(Deadline { at: self.assembly.due(), why: crate::timer::JOIN }),
        }
    }

    fn is_urgent(&self) -> bool {
        self.membership.as_ref().is_none_or(|membership| membership.is_urgent())
    }
}

impl Member {
    fn on_call(&mut self, now: Instant, frame: &Frame<'_>) {
        let Some(call) = Call::decode(frame.payload) else {
            self.stats.malformed += 1;
            return;
        };
        let station = &self.assembly.config().station;
        if call.group != station.group || frame.source == station.mac {
            self.stats.strangers += 1;
            return;
        }
        match &self.membership {
            Some(membership) => {
                // Late ones call for an answer; those who have got there do not.
                let pause = period(self.size()) / 2;
                let lately = self.answered_at.is_some_and(|at| now.since(at) < pause);
                if !call.joined && !membership.is_leaving() && !lately {
                    (self.call_pending, self.answered_at) = (true, Some(now));
                }
            }
            None if self.refusal.is_none() && !self.given_up => {
                if let Err(refusal) = self.assembly.on_call(now, frame.source, call) {
                    // The others are to learn of this one, too.
                    (self.refusal, self.call_pending) = (Some(refusal), true);
                }
                self.join_if_confirmed(now);
            }
            None => {}
        }
    }

    /// Writes a control message to all as a frame; returns its length.
    fn write(&self, kind: Kind, session: u32, rank: u16, body: &[u8], buffer: &mut [u8]) -> usize {
        let station = &self.assembly.config().station;
        let identity = station.identity(session, rank);
        identity.write(buffer, station.group_mac, &identity.header(kind), body)
    }
}
