//! Encoder of measurement frames: PROBE requests, and the headers of their replies (ECHO and
//! REPORT). It also divides a message of m bytes into frames.

use super::body::{ProbeBody, Task};
use super::kind;
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::{Flags, Frame, Header, Identity, Kind, OVERHEAD_BYTES};
use std::collections::BTreeMap;
use std::ops::Range;

/// Position of the nonce drawn by the addressed host in a PROBE to it: behind the fixed part.
const NONCE: Range<usize> = ProbeBody::BYTES..ProbeBody::BYTES + 8;

/// First test number of [pings](write_ping) to hosts that request to join; a prober's own tests
/// count below.
pub(crate) const FIRST_PING: u32 = 1 << 31;

#[derive(Clone, Debug)]
pub(super) struct ProbeWriter {
    identity: Identity,
    test: u32,
    tokens: OrderTokens,
}

/// Numbers that hosts with a key have drawn, and that orders to them have to carry: a recorded
/// order of an earlier measurement has no effect.
pub(super) type OrderTokens = BTreeMap<MacAddr, u64>;

#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub to: MacAddr,
    pub test: u32,
    pub index: u64,
    pub flags: Flags,
    pub body: ProbeBody,
    pub payload_bytes: usize,
}

impl Probe {
    pub(super) fn request(to: MacAddr, test: u32, index: u64) -> Probe {
        let body = ProbeBody::plain(Task::Ask);
        Probe {
            to,
            test,
            index,
            flags: Flags::default(),
            body,
            payload_bytes: ProbeBody::BYTES,
        }
    }
}

impl ProbeWriter {
    /// Creates a writer; `test` is the number before the first test. Numbers must grow within a
    /// session, also from one prober to the next.
    pub(super) fn new(identity: Identity, test: u32) -> ProbeWriter {
        ProbeWriter {
            identity,
            test,
            tokens: OrderTokens::new(),
        }
    }

    pub(super) fn set_tokens(&mut self, tokens: OrderTokens) {
        self.tokens = tokens;
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(super) fn session(&self) -> u32 {
        self.identity.session
    }

    pub(super) fn draw(&mut self) -> u32 {
        self.test = self.test.wrapping_add(1);
        self.test
    }

    pub(super) fn write(&self, buffer: &mut [u8], probe: &Probe) -> usize {
        self.fill(buffer, probe);
        self.seal(buffer, probe)
    }

    pub(super) fn order(&self, buffer: &mut [u8], order: &Probe, mut payload: Vec<u8>) -> usize {
        let header = header(
            &self.identity,
            kind::PROBE,
            order.test,
            order.index,
            order.flags,
        );
        payload.extend(
            self.tokens
                .get(&order.to)
                .iter()
                .flat_map(|token| token.to_be_bytes()),
        );
        self.identity.write(buffer, order.to, &header, &payload)
    }

    fn fill<'a>(&self, buffer: &'a mut [u8], probe: &Probe) -> &'a mut [u8] {
        let payload = &mut self.identity.payload_of(buffer)[..probe.payload_bytes];
        payload[ProbeBody::BYTES..].fill(0);
        probe.body.write(payload);
        payload
    }

    fn seal(&self, buffer: &mut [u8], probe: &Probe) -> usize {
        let header = header(
            &self.identity,
            kind::PROBE,
            probe.test,
            probe.index,
            probe.flags,
        );
        self.identity
            .seal(buffer, probe.to, &header, probe.payload_bytes)
    }
}

/// Writes a PROBE of one frame that the receiver echoes at equal length, and returns its length.
/// The ECHO has the test's number as its stamp. The frame carries `nonce`, which its receiver has
/// drawn, so that it cannot be forged in advance.
pub(crate) fn write_ping(
    buffer: &mut [u8],
    identity: &Identity,
    to: MacAddr,
    (test, nonce): (u32, u64),
    payload_bytes: usize,
) -> usize {
    let payload_bytes = payload_bytes.max(NONCE.end);
    let body = ProbeBody {
        task: Task::Ping,
        payload_bytes: payload_bytes as u16,
        number: payload_bytes as u32,
    };
    let probe = Probe {
        to,
        test,
        index: 0,
        flags: Flags::LAST,
        body,
        payload_bytes,
    };
    let writer = ProbeWriter::new(identity.clone(), test);
    writer.fill(buffer, &probe)[NONCE].copy_from_slice(&nonce.to_be_bytes());
    writer.seal(buffer, &probe)
}

pub(crate) fn carries(probe: &Frame<'_>, nonce: u64) -> bool {
    probe.payload.get(NONCE) == Some(&nonce.to_be_bytes())
}

/// Returns a header of one of the three kinds; the test number takes the place of a stream's stamp.
pub(super) fn header(
    identity: &Identity,
    kind: Kind,
    test: u32,
    index: u64,
    flags: Flags,
) -> Header {
    Header {
        flags,
        sequence: index,
        stamp: test,
        ..identity.header(kind)
    }
}

/// Shortest frame on the wire without checksum, in bytes (IEEE 802.3).
const MIN_FRAME_BYTES: usize = 60;
/// Bytes on the wire beside a frame's own: preamble and delimiter 8, checksum 4, gap 12 (IEEE
/// 802.3).
const WIRE_OVERHEAD_BYTES: usize = 24;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FramedMessage {
    pub bytes: usize,
    pub payload_bytes: usize,
}

impl FramedMessage {
    pub(super) fn frames(self) -> u64 {
        self.bytes.div_ceil(self.payload_bytes).max(1) as u64
    }

    pub(super) fn payload_of(self, index: u64) -> usize {
        let rest = self
            .bytes
            .saturating_sub(index as usize * self.payload_bytes);
        rest.clamp(ProbeBody::BYTES, self.payload_bytes)
    }

    /// Returns the bytes on the wire of the first `frames` frames of a train of such messages,
    /// preamble and gap included.
    pub(super) fn wire_bytes(self, frames: u64) -> u64 {
        let each = self.frames();
        let front = |frames: u64| {
            (0..frames)
                .map(|index| frame_wire_bytes(self.payload_of(index)))
                .sum::<u64>()
        };
        frames / each * front(each) + front(frames % each)
    }

    pub(super) fn message_wire_bytes(self) -> u64 {
        self.wire_bytes(self.frames())
    }
}

fn frame_wire_bytes(payload_bytes: usize) -> u64 {
    ((OVERHEAD_BYTES + payload_bytes).max(MIN_FRAME_BYTES) + WIRE_OVERHEAD_BYTES) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_full_frames_and_the_rest() {
        let framed = FramedMessage {
            bytes: 2048,
            payload_bytes: 1468,
        };
        assert_eq!(
            (framed.frames(), framed.payload_of(0), framed.payload_of(1)),
            (2, 1468, 580)
        );
        assert_eq!(framed.message_wire_bytes(), 2048 + 2 * 70);
        assert_eq!(
            framed.wire_bytes(5),
            2 * (2048 + 140) + 1468 + 70,
            "two messages and a frame"
        );
    }

    #[test]
    fn every_frame_has_room_for_its_body() {
        let framed = FramedMessage {
            bytes: 1469,
            payload_bytes: 1468,
        };
        assert_eq!(
            (framed.frames(), framed.payload_of(1)),
            (2, ProbeBody::BYTES)
        );
        assert_eq!(
            FramedMessage {
                bytes: 0,
                payload_bytes: 1468
            }
            .frames(),
            1
        );
        assert_eq!(
            FramedMessage {
                bytes: 8,
                payload_bytes: 1468
            }
            .message_wire_bytes(),
            84,
            "Ethernet pads short frames"
        );
    }
}
