//! The 14-byte Ethernet header and the 32-byte ethbcast header behind it.

use super::{EtherType, Flags, Kind, MacAddr, Rank, StreamId};
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the Ethernet header.
pub const ETHERNET_BYTES: usize = 14;
/// Bytes of the ethbcast header.
pub const HEADER_BYTES: usize = 32;
/// Bytes of a frame that are not payload.
pub const OVERHEAD_BYTES: usize = ETHERNET_BYTES + HEADER_BYTES;

const MAGIC: u16 = 0x4542;
/// The version of the protocol that this build speaks: one more with every change of a layout. Magic, version and kind
/// keep their places in the header, so that hosts of different builds can tell that they are.
pub const VERSION: u8 = 5;
/// Where the parts of the Ethernet header lie in a frame.
const DESTINATION: std::ops::Range<usize> = 0..6;
const SOURCE: std::ops::Range<usize> = 6..12;
const ETHER_TYPE: std::ops::Range<usize> = 12..ETHERNET_BYTES;
/// Where the seats of receiver and sender lie in a frame.
const SEATS: std::ops::Range<usize> = ETHERNET_BYTES + 16..ETHERNET_BYTES + 18;
/// Where the checksum lies in a frame.
const CHECKSUM: std::ops::Range<usize> = ETHERNET_BYTES + 28..OVERHEAD_BYTES;

/// The header as it lies in a frame, all numbers big-endian.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: U16,
    version: u8,
    kind: u8,
    session: U32,
    stream: U16,
    rank: U16,
    epoch: u8,
    flags: u8,
    payload_bytes: U16,
    /// The receiver's and the sender's.
    seats: [u8; 2],
    /// The low 48 bits.
    sequence: [u8; 6],
    stamp: U32,
    checksum: U32,
}

/// The ethbcast header, without what is derived (magic, version, length, checksum).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame carries.
    pub kind: Kind,
    /// The session it belongs to, drawn at random by the root.
    pub session: u32,
    /// The stream within the session, zero if none.
    pub stream: StreamId,
    /// The sender's rank; [`Rank::NONE`] before it has one.
    pub rank: Rank,
    /// The low eight bits of the sender's view number.
    pub epoch: u8,
    /// See [`Flags`].
    pub flags: Flags,
    /// Data: the frame's number in its stream. Ack: the cursor. Heartbeat: one past the last number sent. At most
    /// [`MAX_SEQUENCE`].
    pub sequence: u64,
    /// Data, heartbeat: the sender's transmission stamp (microseconds, strictly increasing). Ack: the newest stamp
    /// received.
    pub stamp: u32,
}

/// The highest number a frame can have in its stream, 48 bits: at a hundred million frames a second for a month.
pub const MAX_SEQUENCE: u64 = (1 << 48) - 1;

/// The Ethernet header (IEEE 802.3 §3): from whom a frame is, to whom, and of which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetHeader {
    /// The sending interface.
    pub source: MacAddr,
    /// The receiving interface or the group.
    pub destination: MacAddr,
    /// The EtherType in use.
    pub ether_type: EtherType,
}

/// A frame taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The sending interface.
    pub source: MacAddr,
    /// The header.
    pub header: Header,
    /// The payload, without Ethernet padding.
    pub payload: &'a [u8],
}

/// Why a frame was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reject {
    /// Shorter than its headers or than its announced payload.
    Short,
    /// Another protocol with our EtherType.
    Foreign,
    /// Another version of our protocol.
    Version(OtherVersion),
    /// The checksum does not match: damaged on the way.
    Damaged,
}

/// What can be said of a frame of another version. Nothing vouches for it: its checksum may lie elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherVersion {
    /// The version it is of.
    pub version: u8,
    /// What it carries.
    pub kind: Kind,
    /// The sending interface.
    pub source: MacAddr,
}

/// Completes the frame in `buffer`, whose payload of `payload_bytes` already lies at [`OVERHEAD_BYTES`]; returns its
/// length.
///
/// # Panics
/// If `buffer` is shorter than the frame or the payload longer than 65 535 bytes.
pub fn seal(buffer: &mut [u8], ethernet: EthernetHeader, header: &Header, payload_bytes: usize) -> usize {
    let length = OVERHEAD_BYTES + payload_bytes;
    let buffer = &mut buffer[..length];
    buffer[DESTINATION].copy_from_slice(&ethernet.destination.octets());
    buffer[SOURCE].copy_from_slice(&ethernet.source.octets());
    buffer[ETHER_TYPE].copy_from_slice(&ethernet.ether_type.octets());
    let raw = RawHeader {
        magic: U16::new(MAGIC),
        version: VERSION,
        kind: header.kind.0,
        session: U32::new(header.session),
        stream: U16::new(header.stream.0),
        rank: U16::new(header.rank.0),
        epoch: header.epoch,
        flags: header.flags.0,
        payload_bytes: U16::new(u16::try_from(payload_bytes).expect("a payload fits in 16 bits")),
        seats: [ethernet.destination.seat(), ethernet.source.seat()],
        sequence: low_bytes(header.sequence),
        stamp: U32::new(header.stamp),
        checksum: U32::new(0),
    };
    buffer[ETHERNET_BYTES..OVERHEAD_BYTES].copy_from_slice(raw.as_bytes());
    write_checksum(buffer);
    length
}

fn low_bytes(sequence: u64) -> [u8; 6] {
    let [_, _, low @ ..] = sequence.to_be_bytes();
    low
}

/// For whom a frame of this protocol is, seat included; `None` if it is shorter than its headers.
#[inline]
pub fn destination(frame: &[u8]) -> Option<MacAddr> {
    let (headers, _) = frame.split_first_chunk::<OVERHEAD_BYTES>()?;
    let [a, b, c, d, e, f, ..] = *headers;
    Some(MacAddr::new(a, b, c, d, e, f).with_seat(headers[SEATS.start]))
}

/// Writes the checksum of a frame, without padding, in which it is zero.
fn write_checksum(frame: &mut [u8]) {
    let checksum = crc32fast::hash(frame);
    frame[CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
}

/// Changes a byte of the payload, counted round and round, and makes the checksum fit; nothing of what has no payload
/// or is no frame of this protocol. So do memory and hardware that check at the wrong moment.
pub(crate) fn damage(frame: &mut [u8], byte: usize) {
    let payload_bytes = parse(frame).map_or(0, |frame| frame.payload.len());
    if payload_bytes > 0 {
        let frame = &mut frame[..OVERHEAD_BYTES + payload_bytes];
        frame[OVERHEAD_BYTES + byte % payload_bytes] ^= 0x55;
        frame[CHECKSUM].fill(0);
        write_checksum(frame);
    }
}

/// Takes a frame apart and verifies its checksum: CRC-32 of both headers, with the checksum field as zero, and payload.
#[inline]
pub fn parse(frame: &[u8]) -> Result<Frame<'_>, Reject> {
    parse_version(VERSION, frame)
}

/// The same for a frame of this version, if its header and checksum are laid out as ours.
#[inline]
pub fn parse_version(version: u8, frame: &[u8]) -> Result<Frame<'_>, Reject> {
    let (ethernet, raw, rest) = split(version, frame)?;
    let payload = rest.get(..usize::from(raw.payload_bytes.get())).ok_or(Reject::Short)?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&frame[..CHECKSUM.start]);
    hasher.update(&[0; 4]);
    hasher.update(payload);
    if hasher.finalize() != raw.checksum.get() && !planted!("checksum-not-compared") {
        return Err(Reject::Damaged);
    }
    Ok(raw.frame(ethernet, payload))
}

/// The headers of a frame of which the end is missing, with as much of its payload as there is; and how many bytes that
/// should have. Nothing vouches for them: it is for those who look at frames, not for those who act on them.
pub fn parse_headers(frame: &[u8]) -> Result<(Frame<'_>, usize), Reject> {
    let (ethernet, raw, rest) = split(VERSION, frame)?;
    let payload_bytes = usize::from(raw.payload_bytes.get());
    Ok((raw.frame(ethernet, &rest[..rest.len().min(payload_bytes)]), payload_bytes))
}

/// Ethernet header, header and what follows them, if the header is of this version.
#[inline]
fn split(version: u8, frame: &[u8]) -> Result<(&[u8; ETHERNET_BYTES], &RawHeader, &[u8]), Reject> {
    let (ethernet, rest) = frame.split_first_chunk::<ETHERNET_BYTES>().ok_or(Reject::Short)?;
    let (raw, rest) = RawHeader::ref_from_prefix(rest).map_err(|_| Reject::Short)?;
    if raw.magic.get() != MAGIC {
        return Err(Reject::Foreign);
    }
    if raw.version != version {
        let (version, kind, source) = (raw.version, Kind(raw.kind), source_of(ethernet));
        return Err(Reject::Version(OtherVersion { version, kind, source }));
    }
    Ok((ethernet, raw, rest))
}

impl RawHeader {
    /// The frame that has this header.
    #[inline]
    fn frame<'a>(&self, ethernet: &[u8; ETHERNET_BYTES], payload: &'a [u8]) -> Frame<'a> {
        let header = Header {
            kind: Kind(self.kind),
            session: self.session.get(),
            stream: StreamId(self.stream.get()),
            rank: Rank(self.rank.get()),
            epoch: self.epoch,
            flags: Flags(self.flags),
            sequence: self.sequence.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)),
            stamp: self.stamp.get(),
        };
        Frame { source: source_of(ethernet).with_seat(self.seats[1]), header, payload }
    }
}

fn source_of(ethernet: &[u8; ETHERNET_BYTES]) -> MacAddr {
    let [_, _, _, _, _, _, a, b, c, d, e, f, ..] = *ethernet;
    MacAddr::new(a, b, c, d, e, f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ethernet() -> EthernetHeader {
        EthernetHeader {
            source: MacAddr::new(2, 0, 0, 0, 0, 1).with_seat(3),
            destination: MacAddr::new(2, 0, 0, 0, 0, 2).with_seat(4),
            ether_type: EtherType::DEFAULT,
        }
    }

    fn header() -> impl Strategy<Value = Header> {
        let kind = prop::sample::select(vec![Kind::DATA, Kind::ACK, Kind::HEARTBEAT, Kind(19), Kind(24)]);
        (kind, any::<u32>(), any::<u16>(), any::<u16>(), any::<u8>(), any::<u8>(), 0..=MAX_SEQUENCE, any::<u32>())
            .prop_map(|(kind, session, stream, rank, epoch, flags, sequence, stamp)| Header {
                kind,
                session,
                stream: StreamId(stream),
                rank: Rank(rank),
                epoch,
                flags: Flags(flags),
                sequence,
                stamp,
            })
    }

    fn sealed(header: &Header, payload: &[u8]) -> Vec<u8> {
        let mut buffer = vec![0; OVERHEAD_BYTES + payload.len()];
        buffer[OVERHEAD_BYTES..].copy_from_slice(payload);
        let length = seal(&mut buffer, ethernet(), header, payload.len());
        assert_eq!(length, buffer.len());
        buffer
    }

    proptest! {
        #[test]
        fn what_is_sealed_parses_to_the_same_even_behind_padding(
            header in header(), payload in prop::collection::vec(any::<u8>(), 0..2000), padding in 0..50usize,
        ) {
            let mut frame = sealed(&header, &payload);
            frame.extend(std::iter::repeat_n(0xAA, padding));
            let parsed = parse(&frame).expect("own frames parse");
            prop_assert_eq!(parsed.header, header);
            prop_assert_eq!(parsed.payload, &payload[..]);
            prop_assert_eq!(parsed.source, ethernet().source);
            let cut = OVERHEAD_BYTES + payload.len() / 2;
            let (cut, bytes) = parse_headers(&frame[..cut]).expect("its headers are there");
            prop_assert_eq!((cut.header, cut.payload, bytes), (header, &payload[..payload.len() / 2], payload.len()));
            prop_assert_eq!(destination(&frame), Some(ethernet().destination));
        }

        #[test]
        fn one_flipped_bit_anywhere_never_passes(
            header in header(), payload in prop::collection::vec(any::<u8>(), 0..200),
            bit in any::<prop::sample::Index>(),
        ) {
            let mut frame = sealed(&header, &payload);
            let bit = bit.index(frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(parse(&frame).is_err());
        }

        #[test]
        fn a_damaged_payload_passes_for_a_sound_one(
            header in header(), payload in prop::collection::vec(any::<u8>(), 0..200), byte in any::<u16>(),
        ) {
            let mut frame = sealed(&header, &payload);
            damage(&mut frame, byte.into());
            let parsed = parse(&frame).expect("the checksum fits");
            let differ = parsed.payload.iter().zip(&payload).filter(|(new, old)| new != old).count();
            prop_assert_eq!((parsed.header, parsed.payload.len()), (header, payload.len()));
            prop_assert_eq!(differ, payload.len().min(1));
        }

        #[test]
        fn arbitrary_bytes_never_panic(frame in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(parse(&frame).is_err() && parse_headers(&frame).is_err());
        }
    }

    #[test]
    fn the_layout_on_the_wire_is_the_documented_one() {
        let header = Header {
            kind: Kind::DATA,
            session: 0x01020304,
            stream: StreamId(0x0506),
            rank: Rank(0x0708),
            epoch: 9,
            flags: Flags::LAST,
            sequence: 0x0C0D0E0F1011,
            stamp: 0x12131415,
        };
        let frame = sealed(&header, b"x");
        assert_eq!(frame[..14], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xB5]);
        assert_eq!(
            frame[14..42],
            [
                0x45, 0x42, 5, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 0, 1, 4, 3, 0x0C, 0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x12,
                0x13, 0x14, 0x15
            ]
        );
        assert_eq!(frame[46..], *b"x");
    }

    #[test]
    fn a_frame_of_another_version_says_which_from_whom_and_what_it_is() {
        let header = Header {
            kind: Kind(17),
            session: 1,
            stream: StreamId(0),
            rank: Rank::NONE,
            epoch: 0,
            flags: Flags::default(),
            sequence: 0,
            stamp: 0,
        };
        let mut frame = sealed(&header, b"old");
        frame[16] = VERSION - 1;
        frame[CHECKSUM].fill(0);
        let checksum = crc32fast::hash(&frame);
        frame[CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
        let other = OtherVersion { version: VERSION - 1, kind: Kind(17), source: ethernet().source.with_seat(0) };
        assert_eq!(parse(&frame).err(), Some(Reject::Version(other)));
        assert_eq!(parse_version(VERSION - 1, &frame).map(|frame| frame.payload), Ok(&b"old"[..]));
        frame[15] ^= 1;
        assert_eq!(parse(&frame).err(), Some(Reject::Foreign));
    }
}
