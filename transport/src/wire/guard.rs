//! Integrity of frames: a checksum (protocol version 6), or an authentication tag made with a key
//! (version 7). The checksum finds damage. Only hosts that have the secret can make a tag.
//!
//! A tag is made in two steps, as the checksum is. The payload is hashed once to 16 bytes, *U*,
//! which are never sent: by its origin and by each receiver. Each hop then makes its own tag from U
//! and both headers, one block of BLAKE3. This is Carter's and Wegman's composition (a universal
//! hash, then a pseudo-random function), which GMAC, RFC 8452 and UMAC rest on. The function gets
//! the whole header, so there is no nonce to be used twice.
//!
//! **Bound.** A try at a forgery succeeds with less than 2⁻⁹⁵, beside what breaks BLAKE3: 2⁻⁹⁶ that
//! a tag of 12 bytes is guessed, ⌈n/16⌉ · 2⁻¹²⁸ that another payload of n bytes has the same U
//! (POLYVAL; with Poly1305 8⌈n/16⌉ · 2⁻¹⁰⁶). Lengths are in the header. Two payloads under one
//! header would show by equal tags whether their U are equal, and nothing else.
//!
//! **POLYVAL or Poly1305** costs 276 ns or 1290 ns for 1456 bytes with carry-less products, 6300 ns
//! or 1290 ns without: hence two suites. BLAKE3 over each whole frame would cost 1600 ns at each
//! hop. Control frames are few and their secrets many: these are hashed by BLAKE3 too, which needs
//! no state for each key.

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
        Guard::Keyed(Arc::new(Secret {
            tag_key: Zeroizing::new(*tag_key),
            hash,
        }))
    }

    /// Whether frames have a tag.
    pub const fn is_keyed(&self) -> bool {
        matches!(self, Guard::Keyed(_))
    }
}

impl Secret {
    #[inline]
    pub(super) fn content(&self, payload: &[u8]) -> ContentChecksum {
        let payload = if planted!("half-of-a-payload-in-its-tag") {
            &payload[..payload.len() / 2]
        } else {
            payload
        };
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
    pub(super) fn tag(
        &self,
        link: &[u8],
        hop: &[u8],
        sealed: &[u8],
        content: ContentChecksum,
    ) -> [u8; TAG_BYTES] {
        let link = if planted!("addresses-not-in-the-tag") {
            &[]
        } else {
            link
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        EtherType, EthernetHeader, Flags, Header, KEYED_VERSION, Kind, MacAddr, OtherVersion, Rank,
        Reject, StreamId, UnprovenFrame, VERSION, parse, parse_headers, parse_keyed,
    };
    use proptest::prelude::*;

    const OVERHEAD: usize = 54;

    fn host(last: u8) -> MacAddr {
        MacAddr::new(2, 0, 0, 0, 0, last)
    }

    fn link(from: u8, to: u8) -> EthernetHeader {
        EthernetHeader {
            source: host(from),
            destination: host(to),
            ether_type: EtherType::DEFAULT,
        }
    }

    fn guard(secret: u8, hash: PayloadHash) -> Guard {
        let secret: [u8; 32] = std::array::from_fn(|at| secret + at as u8);
        let derive = |context| blake3::derive_key(context, &secret);
        Guard::keyed(&derive("ethbcast 7 tag"), &derive("ethbcast 7 hash"), hash)
    }

    fn any_guard() -> impl Strategy<Value = Guard> {
        prop::sample::select(vec![
            PayloadHash::Polyval,
            PayloadHash::Poly1305,
            PayloadHash::Blake3,
        ])
        .prop_map(|hash| guard(0, hash))
    }

    fn header() -> Header {
        Header {
            kind: Kind::DATA,
            session: 0x5e55_0001,
            stream: StreamId(1),
            rank: Rank::ROOT,
            epoch: 1,
            flags: Flags::LAST,
            sequence: 0,
            stamp: 1000,
        }
    }

    fn sealed(guard: &Guard, header: &Header, payload: &[u8]) -> Vec<u8> {
        let mut frame = [&[0; OVERHEAD], payload].concat();
        assert_eq!(
            guard.seal(&mut frame, link(1, 2), header, payload.len()),
            frame.len()
        );
        frame
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Bytes quoted in docs/protocol/frames.md §3.
    #[test]
    fn a_frame_and_what_a_relay_makes_of_it_are_the_documented_ones() {
        let guard = guard(0, PayloadHash::Polyval);
        let payload: [u8; 56] = std::array::from_fn(|at| at as u8);
        let mut frame = sealed(&guard, &header(), &payload);
        let hop = "02000000000202000000000188b54542070100000000000003e80101";
        assert_eq!(hex(&frame[..28]), hop);
        assert_eq!(hex(&frame[28..40]), "c87c6ac7cc82e535574db21d");
        assert_eq!(hex(&frame[40..54]), "5e55000100010038000000000000");
        let content = guard.parse(&frame).expect("it was sealed").content;
        assert_eq!(hex(content.bytes()), "d68b4fe30eff5aab2ebcf8f1b58e9bf5");

        let passed_on = Header {
            rank: Rank(1),
            stamp: 2000,
            ..header()
        };
        guard.seal_again(&mut frame, link(2, 3), &passed_on, payload.len(), content);
        assert_eq!(hex(&frame[28..40]), "d2ffd90edec7bc7ca9dc9920");
        assert_eq!(
            (
                &frame[54..],
                guard.parse(&frame).expect("sealed").content == content
            ),
            (&payload[..], true)
        );
    }

    #[test]
    fn each_host_takes_its_own_version_and_names_the_other() {
        let keyed = guard(0, PayloadHash::Polyval);
        let (tagged, plain) = (sealed(&keyed, &header(), b"text"), {
            let mut frame = [0; 60];
            Guard::Plain.seal(&mut frame, link(1, 2), &header(), 4);
            frame
        });
        let other = |version| OtherVersion {
            version,
            kind: Kind::DATA,
            source: host(1),
        };
        assert_eq!(
            parse(&tagged).err(),
            Some(Reject::Tagged(other(KEYED_VERSION)))
        );
        assert_eq!(
            keyed.parse(&plain).err(),
            Some(Reject::Untagged(other(VERSION)))
        );
        assert_eq!(
            guard(1, PayloadHash::Polyval).parse(&tagged).err(),
            Some(Reject::Damaged),
            "another secret"
        );
        assert!(parse(&plain).is_ok() && keyed.parse(&tagged).is_ok());
        assert!(
            Reject::Tagged(other(7)).is_non_member()
                && Reject::NonMember.is_non_member()
                && !Reject::Damaged.is_non_member()
        );
    }

    #[test]
    fn a_secret_is_found_by_what_the_frame_says_before_anything_is_hashed() {
        let secrets = [
            guard(0, PayloadHash::Polyval),
            guard(9, PayloadHash::Blake3),
        ];
        let frame = sealed(&secrets[1], &header(), b"text");
        let mut seen = None;
        let found = parse_keyed(&frame, |unproven| {
            let UnprovenFrame {
                source,
                destination,
                header,
                payload,
            } = *unproven;
            seen = Some((source, destination, header, payload.to_vec()));
            Some(&secrets[1])
        });
        assert_eq!(seen, Some((host(1), host(2), header(), b"text".to_vec())));
        assert_eq!(found.map(|frame| frame.payload), Ok(&b"text"[..]));
        for none in [None, Some(&Guard::Plain)] {
            assert_eq!(parse_keyed(&frame, |_| none).err(), Some(Reject::NonMember));
        }
        assert_eq!(
            parse_keyed(&frame[..OVERHEAD + 3], |_| unreachable!("it is cut")).err(),
            Some(Reject::Short)
        );
    }

    #[test]
    fn a_changed_byte_cannot_be_hidden_and_headers_are_read_all_the_same() {
        let guard = guard(0, PayloadHash::Polyval);
        let mut frame = sealed(&guard, &header(), b"text");
        crate::wire::damage(&mut frame, 5);
        assert_eq!(frame[OVERHEAD..], *b"t\x30xt");
        assert_eq!(guard.parse(&frame).err(), Some(Reject::Damaged));
        let (read, bytes) = parse_headers(&frame[..OVERHEAD + 1]).expect("its headers are there");
        assert_eq!((read.header, read.payload, bytes), (header(), &b"t"[..], 4));
    }

    #[test]
    fn a_tag_covers_the_header_of_any_link_and_guards_show_nothing() {
        let Guard::Keyed(secret) = guard(0, PayloadHash::Blake3) else {
            unreachable!("it is keyed")
        };
        let tag =
            |link: &[u8]| secret.tag(link, &[1; 14], &[2; 14], ContentChecksum::from([3; 16]));
        let tags = [tag(&[4; 36]), tag(&[4; 14]), tag(&[4; 12]), tag(&[5; 12])];
        assert!((0..4).all(|at| !tags[..at].contains(&tags[at])), "{tags:?}");
        let guards = [
            guard(0, PayloadHash::Blake3),
            guard(1, PayloadHash::Blake3),
            Guard::Plain,
        ];
        assert_eq!(
            format!("{guards:?}"),
            "[Keyed(Secret), Keyed(Secret), Plain]"
        );
        assert!(
            (0..3).all(|at| (0..3).all(|other| (guards[at] == guards[other]) == (at == other)))
        );
        assert_eq!(
            (guards[0].header_bytes(), guards[2].header_bytes()),
            (40, 32)
        );
        assert_eq!(
            (
                guards[0].payload_bytes(1500),
                guards[2].payload_bytes(1500),
                guards[0].payload_bytes(9)
            ),
            (1460, 1468, 0)
        );
    }

    proptest! {
        #[test]
        fn what_is_sealed_parses_to_the_same_even_behind_padding(
            guard in any_guard(), payload in prop::collection::vec(any::<u8>(), 0..2000), padding in 0..50_usize,
            stamp in any::<u32>(), port_ids in any::<[u8; 2]>(),
        ) {
            let (source, destination) = (host(1).with_port_id(port_ids[0]), host(2).with_port_id(port_ids[1]));
            let link = EthernetHeader { source, destination, ..link(1, 2) };
            let mut frame = [&[0; OVERHEAD], &payload[..], &vec![0xAA; padding]].concat();
            let written = Header { stamp, ..header() };
            guard.seal(&mut frame, link, &written, payload.len());
            let parsed = guard.parse(&frame).expect("own frames parse");
            prop_assert_eq!((parsed.header, parsed.payload, parsed.source), (written, &payload[..], link.source));
            // Another sender, stamp and urgency, as if the frame were new.
            let again = Header { rank: Rank(7), stamp: !stamp, flags: Flags::LAST.with(Flags::ACK_NOW), ..written };
            let (content, mut new) = (parsed.content, frame.clone());
            guard.seal_again(&mut frame, link, &again, payload.len(), content);
            guard.seal(&mut new, link, &again, payload.len());
            prop_assert_eq!(&frame, &new);
            prop_assert!(guard.parse(&new).is_ok_and(|frame| frame.content == content));
        }

        #[test]
        fn one_flipped_bit_anywhere_never_passes(
            guard in any_guard(), payload in prop::collection::vec(any::<u8>(), 0..200),
            bit in any::<prop::sample::Index>(),
        ) {
            let mut frame = sealed(&guard, &header(), &payload);
            let bit = bit.index(frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(guard.parse(&frame).is_err());
        }

        #[test]
        fn zeros_behind_a_payload_make_it_another(guard in any_guard(), bytes in 0..40_usize, more in 1..40_usize) {
            let [short, long] = [bytes, bytes + more].map(|bytes| sealed(&guard, &header(), &vec![0; bytes]));
            prop_assert_ne!(&short[28..40], &long[28..40]);
        }

        #[test]
        fn arbitrary_bytes_behind_right_headers_never_panic(
            guard in any_guard(), mut frame in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let start = sealed(&guard, &header(), b"");
            let kept = frame.len().min(18);
            frame[..kept].copy_from_slice(&start[..kept]);
            prop_assert!(guard.parse(&frame).is_err());
        }
    }
}
