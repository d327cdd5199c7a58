//! Protection of frames by the checksum of version 6 or the keyed tag of version 7. The checksum finds damage. Only
//! hosts that have the secret can make a tag.
//!
//! A tag is made in two steps, as the checksum is. The payload is hashed once to 16 bytes, *U*, which are never sent:
//! by its origin and by each receiver. Each hop then makes its own tag from U and both headers, one block of
//! BLAKE3. This is Carter's and Wegman's composition (a universal hash, then a pseudo-random function), which GMAC,
//! RFC 8452 and UMAC rest on. The function gets the whole header, so there is no nonce to be used twice.
//!
//! **Bound.** A try at a forgery succeeds with less than 2⁻⁹⁵, beside what breaks BLAKE3: 2⁻⁹⁶ that a tag of 12 bytes
//! is guessed, ⌈n/16⌉ · 2⁻¹²⁸ that another payload of n bytes has the same U (POLYVAL; with Poly1305
//! 8⌈n/16⌉ · 2⁻¹⁰⁶). Lengths are in the header. Two payloads under one header would show by equal tags whether
//! their U are equal, and nothing else.
//!
//! **POLYVAL or Poly1305** costs 276 ns or 1290 ns for 1456 bytes with carry-less products, 6300 ns or 1290 ns
//! without: hence two suites. BLAKE3 over each whole frame would cost 1600 ns at each hop. Control frames are few and
//! their secrets many: these are hashed by BLAKE3 too, which needs no state for each key.

use crc32fast::Hasher;
use poly1305::Poly1305;
use polyval::Polyval;
use polyval::universal_hash::{KeyInit, UniversalHash};
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

pub(super) const TAG_BYTES: usize = 12;

/// Longest header of a link that a tag covers: addresses and ports of UDP over IPv6.
const MAX_LINK_BYTES: usize = 36;

/// Hash of payloads under a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadHash {
    /// POLYVAL (RFC 8452), for processors with carry-less products.
    Polyval,
    /// Poly1305 (RFC 8439), for all others.
    Poly1305,
    /// Keyed BLAKE3, for the few frames of secrets that are not the whole session's.
    Blake3,
}

/// Protection of frames against damage alone, or against all without the secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// Version 6: a checksum.
    #[default]
    Plain,
    /// Version 7: a tag under this secret.
    Keyed(Arc<Secret>),
}

/// The two keys derived from one secret, wiped when the last guard with them is dropped.
pub struct Secret {
    tag_key: Zeroizing<[u8; 32]>,
    hash: KeyedHash,
}

enum KeyedHash {
    Polyval(Box<Polyval>),
    Poly1305(Box<Poly1305>),
    Blake3(Zeroizing<[u8; 32]>),
}

impl Guard {
    /// Creates a guard from the two keys of one secret.
    pub fn keyed(tag_key: &[u8; 32], hash_key: &[u8; 32], hash: PayloadHash) -> Guard {
        let hash = match hash {
            PayloadHash::Polyval => {
                let half: &[u8; 16] = hash_key.first_chunk().expect("32 bytes have 16");
                KeyedHash::Polyval(Box::new(Polyval::new(half.into())))
            }
            PayloadHash::Poly1305 => KeyedHash::Poly1305(Box::new(Poly1305::new(hash_key.into()))),
            PayloadHash::Blake3 => KeyedHash::Blake3(Zeroizing::new(*hash_key)),
        };
        Guard::Keyed(Arc::new(Secret { tag_key: Zeroizing::new(*tag_key), hash }))
    }

    /// Whether frames have a tag.
    pub const fn is_keyed(&self) -> bool {
        matches!(self, Guard::Keyed(_))
    }
}

impl Secret {
    #[inline]
    pub(super) fn content(&self, payload: &[u8]) -> ContentChecksum {
        ContentChecksum::from(match &self.hash {
            KeyedHash::Polyval(keyed) => {
                let mut hash = Polyval::clone(keyed);
                hash.update_padded(payload);
                hash.finalize().into()
            }
            KeyedHash::Poly1305(keyed) => Poly1305::clone(keyed).compute_unpadded(payload).into(),
            KeyedHash::Blake3(key) => first_bytes(&blake3::keyed_hash(key, payload)),
        })
    }

    /// Returns the tag of a frame over the header of its link, both parts of its own header, and
    /// its payload's hash.
    #[inline]
    pub(super) fn tag(&self, link: &[u8], hop: &[u8], sealed: &[u8], content: ContentChecksum) -> [u8; TAG_BYTES] {
        let mut input = [0; MAX_LINK_BYTES + 14 + 14 + 16];
        let mut end = 0;
        for part in [link, hop, sealed, content.bytes()] {
            input[end..][..part.len()].copy_from_slice(part);
            end += part.len();
        }
        first_bytes(&blake3::keyed_hash(&self.tag_key, &input[..end]))
    }
}

fn first_bytes<const N: usize>(hash: &blake3::Hash) -> [u8; N] {
    *hash.as_bytes().first_chunk().expect("a hash has 32 bytes")
}

/// Compared in constant time, like tags.
impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        constant_time_eq::constant_time_eq_32(&self.tag_key, &other.tag_key)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

#[cfg(test)]
mod tests;

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
