//! Checksum of a frame (CRC-32): the sender computes its part, and each relay continues it over its
//! own.
//!
//! A CRC can be continued (RFC 1952 §8): a forwarding host has the first part from the frame as
//! received, and adds a few bytes of its own. The checksum in the frame still covers all bytes,
//! with the full strength of a CRC-32.

use crc32fast::Hasher;
use std::fmt;

/// Sum of the part of a frame that its origin seals and no host on the way changes. It is equal on
/// every hop; a forwarding host keeps it beside the payload.
///
/// Version 6: CRC-32 of kind, [sealed flags](super::Flags::SEALED), session, stream, length, number
/// and payload. Version 7: the payload's hash under the secret, which reveals nothing without it;
/// the other fields are in the tag.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct ContentChecksum([u8; 16]);

impl ContentChecksum {
    #[inline]
    pub(super) fn of(sealed: &[u8; 16], payload: &[u8]) -> ContentChecksum {
        let mut hasher = Hasher::new();
        hasher.update(sealed);
        hasher.update(payload);
        let [a, b, c, d] = hasher.finalize().to_ne_bytes();
        ContentChecksum([a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    #[inline]
    pub(super) fn crc(self) -> u32 {
        let [a, b, c, d, ..] = self.0;
        u32::from_ne_bytes([a, b, c, d])
    }

    #[inline]
    pub(super) fn on_this_hop(self, hop: &[u8]) -> u32 {
        let mut hasher = Hasher::new_with_initial(self.crc());
        hasher.update(hop);
        hasher.finalize()
    }

    /// Returns the checksum, and the further bytes of a keyed hash.
    pub(crate) fn split(self) -> (u32, [u8; 12]) {
        let [_, _, _, _, rest @ ..] = self.0;
        (self.crc(), rest)
    }

    pub(crate) fn join(crc: u32, rest: [u8; 12]) -> ContentChecksum {
        let mut whole = [0; 16];
        whole[..4].copy_from_slice(&crc.to_ne_bytes());
        whole[4..].copy_from_slice(&rest);
        ContentChecksum(whole)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<[u8; 16]> for ContentChecksum {
    fn from(hash: [u8; 16]) -> ContentChecksum {
        ContentChecksum(hash)
    }
}

/// The hash of a known payload reveals its key, so no log may show it.
impl fmt::Debug for ContentChecksum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ContentChecksum")
    }
}
