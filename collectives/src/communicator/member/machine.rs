//! Member as a machine: takes frames, and chooses the next frame to send.

use super::Member;
use crate::communicator::kind;
use crate::membership::timers::Wait;
use ethbcast_transport::wire::{self, Flags, Header, Kind, Rank};
use ethbcast_transport::{Deadline, Instant, Machine};

impl Machine for Member {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        let frame = match wire::parse(frame) {
            Ok(frame) => frame,
            Err(why) => return self.on_reject(frame, why),
        };
        if frame.header.kind == kind::CALL {
            return self.on_call(now, &frame);
        }
        let Header { session, rank, .. } = frame.header;
        if self.group.is_none() && self.refusal.is_none() && self.assembly.is_of_session(session, rank, frame.source) {
            // The sender knows that all have this list.
            self.join(now);
        }
        match &mut self.group {
            Some(group) => group.handle_frame(now, &frame, &mut self.stats),
            None => self.stats.strangers += 1,
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(group) = &mut self.group {
            return group.handle_timeout(now);
        }
        if self.refusal.is_some() || self.given_up {
            return;
        }
        match self.assembly.on_timeout(now) {
            Err(refusal) => self.refusal = Some(refusal),
            Ok(()) if self.assembly.take_due(now) => self.calls_pending = self.assembly.calls(),
            Ok(()) => {}
        }
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        if let Some(calls) = self.calls_pending.checked_sub(1) {
            self.calls_pending = calls;
            self.stats.calls_sent += 1;
            let body = self.assembly.call(self.group.is_some()).encode();
            return Some(self.write(kind::CALL, 0, Rank::NONE, &body, buffer));
        }
        if let Some(length) = self.write_sign(buffer) {
            return Some(length);
        }
        let group = self.group.as_deref_mut()?;
        let (session, rank) = (group.roster().session(), group.rank());
        if let Some(length) = group.poll_transmit(now, buffer) {
            return Some(length);
        }
        let bye = group.take_bye()?;
        Some(self.write(kind::BYE, session, rank, &bye.encode(), buffer))
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        match &self.group {
            Some(group) => group.poll_timeout(now),
            None if self.refusal.is_some() || self.given_up => None,
            None => Some(Wait::Join.at(self.assembly.due())),
        }
    }

    fn is_urgent(&self) -> bool {
        self.group.as_ref().is_none_or(|group| group.is_urgent())
    }
}

impl Member {
    fn write(&self, kind: Kind, session: u32, rank: Rank, body: &[u8], buffer: &mut [u8]) -> usize {
        let station = &self.assembly.config().station;
        let identity = station.identity(session, rank);
        identity.write(buffer, station.group_mac, &identity.header(kind), body)
    }

    fn write_sign(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let group = self.group.as_deref_mut()?;
        let (sign, notice) = group.take_sign()?;
        let (roster, station) = (group.roster(), &self.assembly.config().station);
        let to = sign.to.map_or(station.group_mac, |rank| roster.entries()[rank.index()].mac);
        let identity = station.identity(roster.session(), group.rank());
        let flags = if sign.asks { Flags::ACK_NOW } else { Flags::default() };
        self.stats.signs_sent += 1;
        Some(identity.write(buffer, to, &Header { flags, ..identity.header(kind::ALIVE) }, &notice.encode()))
    }
}
