//! What a stream sends next, and to whom.

use super::Stream;
use super::cast::Cast;
use super::lane::{Lane, Outgoing};
use crate::arq::stamp::Stamp;
use crate::time::Instant;
use crate::wire::MacAddr;
use crate::wire::{self, EthernetHeader, Flags, Header, Identity, Kind, OVERHEAD_BYTES};

/// A message of this many frames is bulk: what counts is how many frames a wake-up serves, not how soon each is.
const BULK_FRAMES: u64 = 64;

impl Stream {
    /// Writes the next frame into `buffer`: acknowledgements first, they are what others wait for.
    pub(super) fn next_frame(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        if let Some(length) = self.poll_ack(now, buffer) {
            return Some(length);
        }
        if let Some(length) = self.poll_lanes(now, buffer) {
            return Some(length);
        }
        let (cast, wards, stamps) = (&mut self.cast, &mut self.wards, &mut self.stamps);
        let sent = match cast {
            Some(cast) => cast.poll(now, &self.feed, &self.marks, || stamps.draw(now)),
            None => wards.as_mut()?.poll(now, &self.feed, || stamps.draw(now)),
        };
        let (outgoing, to, stamp) = sent?;
        Some(self.write(buffer, outgoing, to, stamp))
    }

    /// The child in the middle of a segment has its turn, for who shared the link with it would only delay both; then the one
    /// that is furthest behind, in sending order.
    fn poll_lanes(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let (lanes, marks) = (&self.lanes, &self.marks);
        self.turns.sort_by_key(|&at| (marks.ends_at(lanes[at].next()), lanes[at].next(), at));
        let mut turn = true;
        for place in 0..self.turns.len() {
            let lane = &mut self.lanes[self.turns[place]];
            if let Some((outgoing, stamp)) = lane.poll(now, turn, &self.feed, &self.marks, || self.stamps.draw(now)) {
                let to = lane.mac;
                return Some(self.write(buffer, outgoing, to, stamp));
            }
            turn = turn && !lane.is_pausing(&self.feed, &self.marks);
        }
        None
    }

    /// Whether a child is in the middle of a segment, and the lowest frame that a child has not been sent yet.
    pub fn sending(&self) -> (bool, u64) {
        let halfway = self.lanes.iter().any(|lane| !self.marks.ends_at(lane.next()));
        (halfway, self.lanes.iter().map(Lane::next).min().unwrap_or(u64::MAX))
    }

    /// Whether a child is in the middle of a segment, which goes on as soon as it has acknowledged some of it.
    pub fn is_pausing(&self) -> bool {
        self.lanes.iter().any(|lane| lane.is_pausing(&self.feed, &self.marks))
    }

    /// Writes an acknowledgement into `buffer` if one is due.
    pub fn poll_ack(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let (parent, standing) = (self.parent?, self.standing());
        let intake = self.intake.as_mut()?;
        let (length, echo) = intake.poll(now, &self.feed, standing, &mut buffer[OVERHEAD_BYTES..], &mut self.stats)?;
        let header = self.header(Kind::ACK, Flags::default(), self.feed.head(), echo);
        Some(wire::seal(buffer, self.link(parent.mac), &header, length))
    }

    fn write(&mut self, buffer: &mut [u8], outgoing: Outgoing, to: MacAddr, stamp: Stamp) -> usize {
        match outgoing {
            Outgoing::Heartbeat { highest, designated } => {
                self.stats.heartbeats_sent += 1;
                let header = self.header(Kind::HEARTBEAT, Flags::default(), highest, stamp);
                let payload = designated.map(u16::to_be_bytes);
                let payload = payload.as_ref().map_or(&[][..], |rank| &rank[..]);
                buffer[OVERHEAD_BYTES..][..payload.len()].copy_from_slice(payload);
                let length = payload.len();
                wire::seal(buffer, self.link(to), &header, length)
            }
            Outgoing::Data { sequence, again, urgent } => {
                *(if again { &mut self.stats.data_resent } else { &mut self.stats.data_sent }) += 1;
                let bits = [
                    (self.feed.last() == Some(sequence), Flags::LAST),
                    (self.marks.has(sequence), Flags::FLUSH),
                    (self.marks.is_reported(sequence), Flags::REPORT),
                    (urgent, Flags::ACK_NOW),
                    (again, Flags::RESENT),
                ];
                let flags = bits.iter().filter(|(set, _)| *set).fold(Flags::default(), |flags, (_, bit)| flags.with(*bit));
                let payload = self.feed.payload(sequence);
                buffer[OVERHEAD_BYTES..][..payload.len()].copy_from_slice(payload);
                let header = self.header(Kind::DATA, flags, sequence, stamp);
                let length = payload.len();
                wire::seal(buffer, self.link(to), &header, length)
            }
        }
    }

    fn header(&self, kind: Kind, flags: Flags, sequence: u64, stamp: Stamp) -> Header {
        let Identity { session, stream, rank, .. } = self.identity;
        Header { kind, session, stream, rank, epoch: self.epoch, flags, sequence, stamp: stamp.0 }
    }

    fn link(&self, destination: MacAddr) -> EthernetHeader {
        EthernetHeader { source: self.identity.mac, destination, ether_type: self.identity.ether_type }
    }

    /// Whether a message, or the stream, is at its beginning or end, so that somebody waits for each frame of it.
    pub(super) fn is_awaited(&self) -> bool {
        let (head, began) = (self.feed.head(), self.marks.before(self.feed.head()));
        if self.feed.is_complete() {
            return false;
        }
        let sent = self.lanes.iter().map(Lane::next).chain(self.cast.as_ref().map(Cast::next)).all(|next| next == head);
        head - began < BULK_FRAMES || (began > 0 && sent && self.passed < head)
    }
}
