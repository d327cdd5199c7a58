//! A broadcast message within a collective, copied straight from and into the callers' buffers.

use crate::communicator::error::Failure;
use crate::communicator::member::{Group, MessagePath, StreamName};
use crate::communicator::signature::Signature;
use ethbcast_transport::Instant;
use ethbcast_transport::stream::{Ending, Run};
use ethbcast_transport::wire::Rank;

#[derive(Clone, Debug)]
pub struct Writing {
    name: StreamName,
    frame_bytes: usize,
    begun: bool,
    written: usize,
    frames: u64,
}

impl Writing {
    pub(super) fn new(name: StreamName, frame_bytes: usize) -> Writing {
        Writing {
            name,
            frame_bytes,
            begun: false,
            written: 0,
            frames: 0,
        }
    }

    pub(super) fn on(name: StreamName) -> Writing {
        Writing::new(name, usize::MAX)
    }

    pub(super) fn cast(origin: Rank) -> Writing {
        Writing::on(StreamName::new(origin, MessagePath::Cast))
    }

    pub(super) fn advance(
        &mut self,
        group: &mut Group,
        now: Instant,
        signature: Signature,
        data: &[u8],
    ) -> bool {
        self.advance_to(u64::MAX, group, now, signature, data)
    }

    pub(super) fn advance_to(
        &mut self,
        most_frames: u64,
        group: &mut Group,
        now: Instant,
        signature: Signature,
        data: &[u8],
    ) -> bool {
        let payload_bytes = group.streams().payload_bytes();
        while !self.begun || self.written < data.len() {
            if self.frames >= most_frames {
                return false;
            }
            let room = if self.begun {
                payload_bytes
            } else {
                payload_bytes - Signature::BYTES
            };
            let room = room
                .min(self.frame_bytes)
                .min(group.streams().unpushed(self.name, self.written));
            let part = &data[self.written..][..room.min(data.len() - self.written)];
            let ends = self.written + part.len() == data.len();
            // No read confirmation is needed: a later message or the barrier gives it.
            let ending = if ends { Ending::Quiet } else { Ending::None };
            let taken = if self.begun {
                group.streams().push(now, self.name, part, ending)
            } else {
                group
                    .streams()
                    .push(now, self.name, &signature.head(part), ending)
            };
            if !taken {
                return false;
            }
            self.begun = true;
            self.written += part.len();
            self.frames += 1;
        }
        true
    }

    pub(super) fn waits_for(&self, group: &mut Group) -> Option<Rank> {
        group.streams().held_up_by(self.name)
    }
}

#[derive(Clone, Debug)]
pub struct Reading {
    expected: StreamName,
    is_certain: bool,
    name: Option<StreamName>,
    begun: bool,
    read: usize,
    frames: u64,
}

impl Reading {
    /// Creates a reader that expects the message on `expected`, and accepts another stream of its
    /// origin.
    pub(super) fn new(expected: StreamName) -> Reading {
        Reading {
            expected,
            is_certain: false,
            name: None,
            begun: false,
            read: 0,
            frames: 0,
        }
    }

    pub(super) fn on(name: StreamName) -> Reading {
        Reading {
            is_certain: true,
            ..Reading::new(name)
        }
    }

    pub(super) fn cast(origin: Rank) -> Reading {
        Reading::on(StreamName::new(origin, MessagePath::Cast))
    }

    pub(super) fn advance(
        &mut self,
        group: &mut Group,
        now: Instant,
        signature: Signature,
        data: &mut [u8],
    ) -> Result<bool, Failure> {
        let Some(name) = self.find(group, signature)? else {
            return self.dried_up(group, signature);
        };
        let before = (self.begun, self.read);
        while !self.begun || self.read < data.len() {
            let most = if self.begun { u64::MAX } else { 1 };
            let Some(Run { bytes, frames, .. }) = group.streams().peek_run(name, most) else {
                break;
            };
            let offset = if self.begun { 0 } else { Signature::BYTES };
            let payload = &bytes[offset..];
            // Bytes beyond the agreed length are dropped.
            let part = payload.len().min(data.len() - self.read);
            let place = &mut data[self.read..][..part];
            place.copy_from_slice(&payload[..part]);
            // In a message of short frames the first carries the signature in addition.
            let frame_bytes = (self.begun && frames > 0).then(|| bytes.len() / frames as usize);
            group.streams().decrypt(name, offset, place);
            (self.begun, self.read) = (true, self.read + part);
            self.frames += frames;
            group
                .streams()
                .consume(now, name, frames, self.read < data.len());
            if let Some(frame_bytes) = frame_bytes.filter(|&bytes| bytes > 0) {
                group
                    .streams()
                    .expect_frames(name, (data.len() - self.read).div_ceil(frame_bytes) as u64);
            }
        }
        if (self.begun, self.read) != before {
            group.streams().drained(now, name);
        }
        if self.begun && self.read == data.len() {
            Ok(true)
        } else {
            self.dried_up(group, signature)
        }
    }

    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    fn dried_up(&self, group: &mut Group, signature: Signature) -> Result<bool, Failure> {
        group
            .dried_up(self.expected.origin, signature.number)
            .map_or(Ok(false), Err)
    }

    /// Returns the rank that holds up the receipt: a child that takes no frames from this rank, or
    /// the sender.
    pub(super) fn waits_for(&self, group: &mut Group) -> Option<Rank> {
        let name = self.name.unwrap_or(self.expected);
        let streams = group.streams();
        streams
            .held_up_by(name)
            .or_else(|| streams.parent(name))
            .or(Some(name.origin))
    }

    pub(super) fn find(
        &mut self,
        group: &mut Group,
        signature: Signature,
    ) -> Result<Option<StreamName>, Failure> {
        if self.name.is_none() {
            self.name = if is_at_head(self.expected, group, signature)? {
                Some(self.expected)
            } else if self.is_certain {
                None
            } else {
                let others: Vec<StreamName> =
                    group.streams().of_origin(self.expected.origin).collect();
                let mut found = None;
                for name in others {
                    found = if is_at_head(name, group, signature)? {
                        Some(name)
                    } else {
                        found
                    };
                }
                found
            };
        }
        Ok(self.name)
    }
}

fn is_at_head(name: StreamName, group: &mut Group, signature: Signature) -> Result<bool, Failure> {
    let Some(found) = group.streams().signature(name) else {
        return Ok(false);
    };
    match found {
        Some(found) if found == signature => Ok(true),
        // A later message may come by another stream than this one.
        Some(found) if found.number > signature.number => Ok(false),
        _ => Err(group.calls().odd(name.origin, found, signature)),
    }
}
