//! Division of a test message into frames: number, length, and bytes on the wire.

use super::body::ProbeBody;
use ethbcast_transport::wire::OVERHEAD_BYTES;

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
        let rest = self.bytes.saturating_sub(index as usize * self.payload_bytes);
        rest.clamp(ProbeBody::BYTES, self.payload_bytes)
    }

    /// Returns the bytes on the wire of the first `frames` frames of a train of such messages,
    /// preamble and gap included.
    pub(super) fn wire_bytes(self, frames: u64) -> u64 {
        let each = self.frames();
        let front = |frames: u64| (0..frames).map(|index| frame_wire_bytes(self.payload_of(index))).sum::<u64>();
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
        let framed = FramedMessage { bytes: 2048, payload_bytes: 1468 };
        assert_eq!((framed.frames(), framed.payload_of(0), framed.payload_of(1)), (2, 1468, 580));
        assert_eq!(framed.message_wire_bytes(), 2048 + 2 * 70);
        assert_eq!(framed.wire_bytes(5), 2 * (2048 + 140) + 1468 + 70, "two messages and a frame");
    }

    #[test]
    fn every_frame_has_room_for_its_body() {
        let framed = FramedMessage { bytes: 1469, payload_bytes: 1468 };
        assert_eq!((framed.frames(), framed.payload_of(1)), (2, ProbeBody::BYTES));
        assert_eq!(FramedMessage { bytes: 0, payload_bytes: 1468 }.frames(), 1);
        assert_eq!(
            FramedMessage { bytes: 8, payload_bytes: 1468 }.message_wire_bytes(),
            84,
            "Ethernet pads short frames"
        );
    }
}
