//! What vouches for a frame: CRC-32 of what its origin has sealed, continued over what is of one hop.
//!
//! A CRC goes on where another ended (RFC 1952 §8): a host that passes a frame on has the first part from the frame
//! as it came, and adds up a few bytes of its own. The checksum in the frame is one of all its bytes all the same, with
//! all that a CRC-32 finds.

use crc32fast::Hasher;

/// CRC-32 of what the origin of a frame has sealed and nobody on the way changes: kind,
/// [sealed flags](super::Flags::SEALED), session, stream, length, number and payload.
///
/// It is the same on every hop, and kept beside the payload by whoever passes it on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentChecksum(u32);

impl ContentChecksum {
    /// Of the bytes of a header that its origin has sealed, and the payload.
    #[inline]
    pub(super) fn of(sealed: &[u8; 16], payload: &[u8]) -> ContentChecksum {
        let mut hasher = Hasher::new();
        hasher.update(sealed);
        hasher.update(payload);
        ContentChecksum(hasher.finalize())
    }

    /// The checksum of the whole frame, of which `hop` is all before the checksum.
    #[inline]
    pub(super) fn on_this_hop(self, hop: &[u8]) -> u32 {
        let mut hasher = Hasher::new_with_initial(self.0);
        hasher.update(hop);
        hasher.finalize()
    }
}
