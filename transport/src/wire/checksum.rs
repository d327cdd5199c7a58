//! Checksum of a frame: CRC-32 of the part sealed by its origin, continued over the part of one
//! hop.
//!
//! A CRC can be continued (RFC 1952 §8): a forwarding host has the first part from the frame as
//! received, and adds a few bytes of its own. The checksum in the frame still covers all bytes,
//! with the full strength of a CRC-32.

use crc32fast::Hasher;

/// CRC-32 of the part of a frame that its origin seals and no host on the way changes: kind,
/// [sealed flags](super::Flags::SEALED), session, stream, length, number and payload.
///
/// The checksum is equal on every hop; a forwarding host keeps it beside the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentChecksum(u32);

impl ContentChecksum {
    #[inline]
    pub(super) fn of(sealed: &[u8; 16], payload: &[u8]) -> ContentChecksum {
        let mut hasher = Hasher::new();
        hasher.update(sealed);
        hasher.update(payload);
        ContentChecksum(hasher.finalize())
    }

    #[inline]
    pub(super) fn on_this_hop(self, hop: &[u8]) -> u32 {
        let mut hasher = Hasher::new_with_initial(self.0);
        hasher.update(hop);
        hasher.finalize()
    }
}
