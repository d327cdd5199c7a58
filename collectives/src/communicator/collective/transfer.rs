//! One message of a collective on a stream: its signature, then its bytes, straight from and into the caller's slices.

use crate::communicator::failure::Failure;
use crate::communicator::member::{Group, StreamName, Way};
use crate::communicator::signature::Signature;
use ethbcast_transport::Instant;
use ethbcast_transport::stream::Ending;
use ethbcast_transport::wire::Rank;

/// A message being written to one of this rank's own streams.
#[derive(Clone, Debug)]
pub struct Writing {
    way: Way,
    begun: bool,
    written: usize,
}

impl Writing {
    pub(super) fn new(way: Way) -> Writing {
        Writing { way, begun: false, written: 0 }
    }

    /// Writes as much of `data` as there is room for; true once all of it is written.
    pub(super) fn advance(&mut self, group: &mut Group, now: Instant, signature: Signature, data: &[u8]) -> bool {
        let payload_bytes = group.streams().payload_bytes();
        while !self.begun || self.written < data.len() {
            let room = if self.begun { payload_bytes } else { payload_bytes - Signature::BYTES };
            let part = &data[self.written..][..room.min(data.len() - self.written)];
            let ends = self.written + part.len() == data.len();
            // Nobody waits to hear that it has been read: a later message or the barrier will tell.
            let ending = if ends { Ending::Quiet } else { Ending::None };
            let taken = if self.begun {
                group.streams().push(now, self.way, part, ending)
            } else {
                group.streams().push(now, self.way, &signature.head(part), ending)
            };
            if !taken {
                return false;
            }
            self.begun = true;
            self.written += part.len();
        }
        true
    }

    /// Who keeps it from being sent.
    pub(super) fn waits_for(&self, group: &mut Group) -> Option<Rank> {
        let origin = group.rank();
        group.streams().held_up_by(StreamName { origin, way: self.way })
    }
}

/// A message being read from the streams of another rank.
#[derive(Clone, Debug)]
pub struct Reading {
    origin: Rank,
    /// Whether it can come by a cast alone.
    is_cast: bool,
    /// The stream it comes by, once that is known.
    name: Option<StreamName>,
    read: usize,
}

impl Reading {
    pub(super) fn new(origin: Rank) -> Reading {
        Reading { origin, is_cast: false, name: None, read: 0 }
    }

    /// One that comes by a cast.
    pub(super) fn cast(origin: Rank) -> Reading {
        Reading { is_cast: true, ..Reading::new(origin) }
    }

    /// Reads what has come into `data`; true once all of it has.
    pub(super) fn advance(
        &mut self,
        group: &mut Group,
        now: Instant,
        signature: Signature,
        data: &mut [u8],
    ) -> Result<bool, Failure> {
        let mut moved = self.name.is_none() && self.find(group, now, signature, data)?;
        let dried_up = |group: &Group| group.dried_up(self.origin, signature.number).map_or(Ok(false), Err);
        let Some(name) = self.name else { return dried_up(group) };
        while self.read < data.len()
            && let Some(frame) = group.streams().peek(name)
        {
            // What goes beyond what was agreed belongs to nobody.
            let part = frame.len().min(data.len() - self.read);
            data[self.read..][..part].copy_from_slice(&frame[..part]);
            self.read += part;
            group.streams().consume(now, name, self.read < data.len());
            moved = true;
        }
        if moved {
            group.streams().drained(now, name);
        }
        if self.read == data.len() { Ok(true) } else { dried_up(group) }
    }

    /// Who keeps it from coming: who takes nothing of what this rank hands on, or from whom it comes.
    pub(super) fn waits_for(&self, group: &mut Group) -> Option<Rank> {
        if let Some(name) = self.name {
            return group.streams().held_up_by(name).or_else(|| group.streams().source(name));
        }
        // If it has come by the chain before, the next one down the line does not know better.
        let chain = StreamName { origin: self.origin, way: Way::Chain };
        let source = if self.is_cast { None } else { group.streams().source(chain) };
        source.or(Some(self.origin))
    }

    /// Looks for the message on both streams of its origin, and reads its first frame; true if it is there.
    fn find(
        &mut self,
        group: &mut Group,
        now: Instant,
        signature: Signature,
        data: &mut [u8],
    ) -> Result<bool, Failure> {
        for name in [Way::Cast, Way::Chain].map(|way| StreamName { origin: self.origin, way }) {
            let Some(frame) = group.streams().peek(name) else { continue };
            let Some((found, part)) = Signature::split(frame) else {
                return Err(group.calls().odd(self.origin, None, signature));
            };
            if found == signature && part.len() <= data.len() {
                data[..part.len()].copy_from_slice(part);
                (self.name, self.read) = (Some(name), part.len());
                group.streams().consume(now, name, self.read < data.len());
                return Ok(true);
            }
            // A later message may come by the other stream.
            if found.number <= signature.number {
                return Err(group.calls().odd(self.origin, Some(found), signature));
            }
        }
        Ok(false)
    }
}
