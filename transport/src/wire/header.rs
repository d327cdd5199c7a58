//! Wire format of a frame's headers: 14 bytes of Ethernet, then 32 of ethbcast (40 with an
//! authentication tag).
//!
//! The ethbcast header has two parts. The part of one hop (addresses, sender, timestamp) is written
//! anew by each host and lies in front of checksum or tag. The part sealed by the origin (session,
//! stream, length, number, payload) lies behind it in one piece, and no host on the way changes it.
//!
//! The Ethernet header is also the *header of the link* that a tag covers. Over another link these
//! 14 bytes need not travel: the link puts there the addresses from which and to which a frame has
//! come.

use super::guard::{ContentChecksum, Guard, TAG_BYTES};
use super::{EtherType, MacAddr, Rank, StreamId};
use std::ops::Range;
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute_ref};

/// Bytes of the Ethernet header.
pub const ETHERNET_BYTES: usize = 14;
/// Bytes of the ethbcast header with a checksum.
pub const HEADER_BYTES: usize = 32;
/// Bytes of a frame with a checksum that are not payload.
pub const OVERHEAD_BYTES: usize = ETHERNET_BYTES + HEADER_BYTES;

const MAGIC: u16 = 0x4542;
/// Protocol version of this build's frames without a key, incremented with every change of a
/// layout. Magic, version and kind keep their places in the header, so that different builds
/// recognise each other.
pub const VERSION: u8 = 6;
/// Protocol version of frames with a tag.
pub const KEYED_VERSION: u8 = 7;
const CHECKSUM_BYTES: usize = 4;
const HOP_BYTES: usize = ETHERNET_BYTES + 14;
const SEALED_BYTES: usize = 14;
const VERSION_AT: usize = ETHERNET_BYTES + 2;
const PORT_IDS: Range<usize> = ETHERNET_BYTES + 6..ETHERNET_BYTES + 8;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHop {
    destination: [u8; 6],
    source: [u8; 6],
    ether_type: [u8; 2],
    magic: U16,
    version: u8,
    kind: u8,
    rank: U16,
    port_ids: [u8; 2],
    stamp: U32,
    epoch: u8,
    flags: u8,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawSealed {
    session: U32,
    stream: U16,
    payload_bytes: U16,
    sequence: [u8; 6],
}

/// The ethbcast header, without derived fields (magic, version, length, checksum or tag).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Kind of the frame.
    pub kind: Kind,
    /// Session, drawn at random by the root.
    pub session: u32,
    /// Stream within the session, zero if none.
    pub stream: StreamId,
    /// Sender's rank; [`Rank::NONE`] before it has one.
    pub rank: Rank,
    /// Low eight bits of the sender's view number.
    pub epoch: u8,
    /// See [`Flags`].
    pub flags: Flags,
    /// Number of a data frame in its stream, cursor of an acknowledgement, or one past the last
    /// number sent in a heartbeat. At most [`MAX_SEQUENCE`].
    pub sequence: u64,
    /// Sender's transmission stamp in data frames and heartbeats (microseconds, strictly
    /// increasing); newest stamp received in an acknowledgement.
    pub stamp: u32,
}

impl Header {
    /// Returns the checksum of the sealed part of a frame of version 6 with this header and
    /// payload.
    ///
    /// # Panics
    /// If the payload is longer than 65 535 bytes.
    #[inline]
    pub fn content(&self, payload: &[u8]) -> ContentChecksum {
        let payload_bytes = u16::try_from(payload.len()).expect("a payload fits in 16 bits");
        let [a, b, c, d] = self.session.to_be_bytes();
        let [e, f] = self.stream.0.to_be_bytes();
        let [g, h] = payload_bytes.to_be_bytes();
        let [_, _, i, j, k, l, m, n] = self.sequence.to_be_bytes();
        let flags = self.flags.sealed().0;
        ContentChecksum::of(
            &[self.kind.0, flags, a, b, c, d, e, f, g, h, i, j, k, l, m, n],
            payload,
        )
    }
}

/// Highest number of a frame in its stream, 48 bits: a month at a hundred million frames a second.
pub const MAX_SEQUENCE: u64 = (1 << 48) - 1;

/// The Ethernet header (IEEE 802.3 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct EthernetHeader {
    pub source: MacAddr,
    pub destination: MacAddr,
    pub ether_type: EtherType,
}

/// A parsed frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The sending interface.
    pub source: MacAddr,
    /// The header.
    pub header: Header,
    /// The payload, without Ethernet padding.
    pub payload: &'a [u8],
    /// Checksum of the part sealed by its origin, or the payload's keyed hash.
    pub content: ContentChecksum,
}

/// A frame as received, before its tag is compared: enough to find the secret that its sender must
/// have. It only claims its source; its payload is without Ethernet padding.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct UnprovenFrame<'a> {
    pub source: MacAddr,
    pub destination: MacAddr,
    pub header: Header,
    pub payload: &'a [u8],
}

/// Reason why a frame is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reject {
    /// Shorter than its headers or than its announced payload.
    Short,
    /// Another protocol with this EtherType.
    Foreign,
    /// Another version of this protocol.
    Version(OtherVersion),
    /// A frame without a tag, at a host with a key.
    Untagged(OtherVersion),
    /// A frame with a tag, at a host without a key.
    Tagged(OtherVersion),
    /// A tag under a secret that this host does not have.
    NonMember,
    /// The checksum or the tag does not match: damaged on the way, or forged.
    Damaged,
}

impl Reject {
    /// Whether the frame is not meant for this host, rather than malformed.
    pub const fn is_non_member(self) -> bool {
        matches!(
            self,
            Reject::Untagged(_) | Reject::Tagged(_) | Reject::NonMember
        )
    }
}

/// Header fields of a frame of another version. They are not verified: that version's checksum may
/// lie elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherVersion {
    /// Protocol version of the frame.
    pub version: u8,
    /// Kind of the frame.
    pub kind: Kind,
    /// The sending interface.
    pub source: MacAddr,
}

/// Completes the frame of version 6 in `buffer`, whose payload of `payload_bytes` is already in
/// place at [`OVERHEAD_BYTES`]; returns its length.
///
/// # Panics
/// If `buffer` is shorter than the frame or the payload longer than 65 535 bytes.
pub fn seal(
    buffer: &mut [u8],
    ethernet: EthernetHeader,
    header: &Header,
    payload_bytes: usize,
) -> usize {
    Guard::Plain.seal(buffer, ethernet, header, payload_bytes)
}

impl Guard {
    /// Returns the bytes of the ethbcast header.
    #[inline]
    pub const fn header_bytes(&self) -> usize {
        self.overhead_bytes() - ETHERNET_BYTES
    }

    /// Returns the bytes of a frame in front of its payload.
    #[inline]
    pub const fn overhead_bytes(&self) -> usize {
        HOP_BYTES
            + SEALED_BYTES
            + if self.is_keyed() {
                TAG_BYTES
            } else {
                CHECKSUM_BYTES
            }
    }

    /// Returns the longest payload of a frame on a link with this MTU, in bytes.
    pub const fn payload_bytes(&self, mtu_bytes: usize) -> usize {
        mtu_bytes.saturating_sub(self.header_bytes())
    }

    /// Returns the checksum or hash that is kept beside a payload, and is equal at every hop.
    ///
    /// # Panics
    /// If the payload is longer than 65 535 bytes.
    #[inline]
    pub fn content(&self, header: &Header, payload: &[u8]) -> ContentChecksum {
        match self {
            Guard::Plain => header.content(payload),
            Guard::Keyed(secret) => secret.content(payload),
        }
    }

    /// Completes the frame in `buffer`, whose payload of `payload_bytes` is already in place behind
    /// [`overhead_bytes`](Guard::overhead_bytes); returns its length.
    ///
    /// # Panics
    /// The panics of [`seal`].
    #[inline]
    pub fn seal(
        &self,
        buffer: &mut [u8],
        ethernet: EthernetHeader,
        header: &Header,
        payload_bytes: usize,
    ) -> usize {
        let content = self.content(header, &buffer[self.overhead_bytes()..][..payload_bytes]);
        self.seal_again(buffer, ethernet, header, payload_bytes, content)
    }

    /// Completes a frame whose payload has this `content`, so that only headers are read; returns
    /// its length.
    ///
    /// # Panics
    /// The panics of [`seal`].
    #[inline]
    pub fn seal_again(
        &self,
        buffer: &mut [u8],
        ethernet: EthernetHeader,
        header: &Header,
        payload_bytes: usize,
        content: ContentChecksum,
    ) -> usize {
        match self {
            Guard::Plain => {
                let checked = HeaderBytes::write(buffer, VERSION, ethernet, header, payload_bytes);
                *checked.check = content.on_this_hop(checked.hop).to_be_bytes();
            }
            Guard::Keyed(secret) => {
                let tagged =
                    HeaderBytes::write(buffer, KEYED_VERSION, ethernet, header, payload_bytes);
                let (link, hop) = tagged.hop.split_at(ETHERNET_BYTES);
                *tagged.check = secret.tag(link, hop, tagged.sealed, content);
            }
        }
        self.overhead_bytes() + payload_bytes
    }

    /// Parses a frame and verifies its checksum, or its tag under this secret.
    ///
    /// # Errors
    /// The reason why it is rejected.
    #[inline]
    pub fn parse<'a>(&self, frame: &'a [u8]) -> Result<Frame<'a>, Reject> {
        match self {
            Guard::Plain => parse(frame),
            Guard::Keyed(_) => parse_keyed(frame, |_| Some(self)),
        }
    }
}

/// The headers of a frame that is written: its check has `CHECK` bytes.
struct HeaderBytes<'a, const CHECK: usize> {
    hop: &'a [u8],
    check: &'a mut [u8; CHECK],
    sealed: &'a [u8],
}

impl<'a, const CHECK: usize> HeaderBytes<'a, CHECK> {
    #[inline]
    fn write(
        buffer: &'a mut [u8],
        version: u8,
        ethernet: EthernetHeader,
        header: &Header,
        payload_bytes: usize,
    ) -> HeaderBytes<'a, CHECK> {
        let raw = RawHop {
            destination: ethernet.destination.octets(),
            source: ethernet.source.octets(),
            ether_type: ethernet.ether_type.octets(),
            magic: U16::new(MAGIC),
            version,
            kind: header.kind.0,
            rank: U16::new(header.rank.0),
            port_ids: [ethernet.destination.port_id(), ethernet.source.port_id()],
            stamp: U32::new(header.stamp),
            epoch: header.epoch,
            flags: header.flags.0,
        };
        let [_, _, sequence @ ..] = header.sequence.to_be_bytes();
        let raw_sealed = RawSealed {
            session: U32::new(header.session),
            stream: U16::new(header.stream.0),
            payload_bytes: U16::new(
                u16::try_from(payload_bytes).expect("a payload fits in 16 bits"),
            ),
            sequence,
        };
        let headers = &mut buffer[..HOP_BYTES + CHECK + SEALED_BYTES + payload_bytes];
        let (hop, rest) = headers.split_at_mut(HOP_BYTES);
        let (check, rest) = rest
            .split_first_chunk_mut()
            .expect("the check lies in front of what is sealed");
        let sealed = &mut rest[..SEALED_BYTES];
        hop.copy_from_slice(raw.as_bytes());
        sealed.copy_from_slice(raw_sealed.as_bytes());
        HeaderBytes { hop, check, sealed }
    }
}

/// Changes a byte of the payload (`byte` modulo its length) and corrects the checksum, as memory or
/// hardware errors before checksumming do. A tag cannot be corrected. Leaves frames without payload
/// or of other protocols alone.
pub(crate) fn damage(frame: &mut [u8], byte: usize) {
    let Ok((Frame { header, .. }, payload_bytes)) = parse_headers(frame) else {
        return;
    };
    let (is_keyed, is_sound) = (frame[VERSION_AT] == KEYED_VERSION, parse(frame).is_ok());
    let start = OVERHEAD_BYTES
        + if is_keyed {
            TAG_BYTES - CHECKSUM_BYTES
        } else {
            0
        };
    let payload = frame[start..]
        .get_mut(..payload_bytes)
        .filter(|payload| !payload.is_empty());
    let Some(payload) = payload.filter(|_| is_keyed || is_sound) else {
        return;
    };
    payload[byte % payload_bytes] ^= 0x55;
    if is_sound {
        let content = header.content(payload);
        let checksum = content.on_this_hop(&frame[..HOP_BYTES]);
        frame[HOP_BYTES..][..CHECKSUM_BYTES].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Returns the destination of a frame of this protocol, local port id included; `None` if it is
/// shorter than its headers.
#[inline]
pub fn destination(frame: &[u8]) -> Option<MacAddr> {
    let (headers, _) = frame.split_first_chunk::<OVERHEAD_BYTES>()?;
    let [a, b, c, d, e, f, ..] = *headers;
    Some(MacAddr::new(a, b, c, d, e, f).with_port_id(headers[PORT_IDS.start]))
}

/// Parses a frame of version 6 and verifies its checksum, which covers all of it:
/// `docs/protocol/frames.md` §3.
#[inline]
pub fn parse(frame: &[u8]) -> Result<Frame<'_>, Reject> {
    let raw = RawFrame::<CHECKSUM_BYTES>::of(frame)?;
    raw.expect(VERSION)?;
    let payload = raw.payload()?;
    let header = raw.header();
    let content = header.content(payload);
    let checksum = u32::from_be_bytes(*raw.check);
    if content.on_this_hop(raw.hop.as_bytes()) != checksum && !planted!("checksum-not-compared") {
        return Err(Reject::Damaged);
    }
    Ok(Frame {
        source: raw.source(),
        header,
        payload,
        content,
    })
}

/// Parses a frame of version 7 and verifies its tag, which covers all of it, under the secret of
/// the guard that `find` names; `None`, or a guard without a secret, rejects the frame before
/// anything is hashed.
///
/// # Errors
/// The reason why it is rejected.
#[inline]
pub fn parse_keyed<'a, 'k>(
    frame: &'a [u8],
    find: impl FnOnce(&UnprovenFrame<'a>) -> Option<&'k Guard>,
) -> Result<Frame<'a>, Reject> {
    let raw = RawFrame::<TAG_BYTES>::of(frame)?;
    raw.expect(KEYED_VERSION)?;
    let payload = raw.payload()?;
    let (source, header) = (raw.source(), raw.header());
    let unproven = UnprovenFrame {
        source,
        destination: raw.destination(),
        header,
        payload,
    };
    let Some(Guard::Keyed(secret)) = find(&unproven) else {
        return Err(Reject::NonMember);
    };
    let content = secret.content(payload);
    let (link, hop) = raw.hop.as_bytes().split_at(ETHERNET_BYTES);
    let tag = secret.tag(link, hop, raw.sealed.as_bytes(), content);
    if !constant_time_eq::constant_time_eq_n(&tag, raw.check) {
        return Err(Reject::Damaged);
    }
    Ok(Frame {
        source,
        header,
        payload,
        content,
    })
}

/// Parses the headers of a truncated frame of either version, with as much of its payload as there
/// is; returns also the full length of the payload. Nothing is verified: this is for diagnostic
/// tools only.
pub fn parse_headers(frame: &[u8]) -> Result<(Frame<'_>, usize), Reject> {
    fn read<'a, const CHECK: usize>(raw: &RawFrame<'a, CHECK>) -> (Frame<'a>, usize) {
        let payload_bytes = usize::from(raw.sealed.payload_bytes.get());
        let payload = &raw.rest[..raw.rest.len().min(payload_bytes)];
        (
            Frame {
                source: raw.source(),
                header: raw.header(),
                payload,
                content: Default::default(),
            },
            payload_bytes,
        )
    }
    let raw = RawFrame::<CHECKSUM_BYTES>::of(frame)?;
    match raw.expect(VERSION) {
        Err(Reject::Tagged(_)) => Ok(read(&RawFrame::<TAG_BYTES>::of(frame)?)),
        expected => expected.map(|()| read(&raw)),
    }
}

struct RawFrame<'a, const CHECK: usize> {
    hop: &'a RawHop,
    check: &'a [u8; CHECK],
    sealed: &'a RawSealed,
    rest: &'a [u8],
}

impl<'a, const CHECK: usize> RawFrame<'a, CHECK> {
    #[inline]
    fn of(frame: &'a [u8]) -> Result<RawFrame<'a, CHECK>, Reject> {
        let (hop, rest) = frame
            .split_first_chunk::<HOP_BYTES>()
            .ok_or(Reject::Short)?;
        let (check, rest) = rest.split_first_chunk::<CHECK>().ok_or(Reject::Short)?;
        let (sealed, rest) = rest
            .split_first_chunk::<SEALED_BYTES>()
            .ok_or(Reject::Short)?;
        Ok(RawFrame {
            hop: transmute_ref!(hop),
            check,
            sealed: transmute_ref!(sealed),
            rest,
        })
    }

    #[inline]
    fn expect(&self, version: u8) -> Result<(), Reject> {
        let RawHop {
            magic,
            version: own,
            kind,
            ..
        } = *self.hop;
        if magic.get() != MAGIC {
            return Err(Reject::Foreign);
        }
        if own == version {
            return Ok(());
        }
        let other = OtherVersion {
            version: own,
            kind: Kind(kind),
            source: MacAddr::from(self.hop.source),
        };
        Err(match own {
            VERSION => Reject::Untagged(other),
            KEYED_VERSION => Reject::Tagged(other),
            _ => Reject::Version(other),
        })
    }

    #[inline]
    fn payload(&self) -> Result<&'a [u8], Reject> {
        self.rest
            .get(..usize::from(self.sealed.payload_bytes.get()))
            .ok_or(Reject::Short)
    }

    #[inline]
    fn header(&self) -> Header {
        let RawSealed {
            session,
            stream,
            sequence,
            ..
        } = self.sealed;
        let RawHop {
            kind,
            rank,
            epoch,
            flags,
            stamp,
            ..
        } = *self.hop;
        Header {
            kind: Kind(kind),
            session: session.get(),
            stream: StreamId(stream.get()),
            rank: Rank(rank.get()),
            epoch,
            flags: Flags(flags),
            sequence: sequence
                .iter()
                .fold(0, |number, &byte| number << 8 | u64::from(byte)),
            stamp: stamp.get(),
        }
    }

    #[inline]
    fn source(&self) -> MacAddr {
        MacAddr::from(self.hop.source).with_port_id(self.hop.port_ids[1])
    }

    #[inline]
    fn destination(&self) -> MacAddr {
        MacAddr::from(self.hop.destination).with_port_id(self.hop.port_ids[0])
    }
}

/// Bits of the flags byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// The last frame of its stream.
    pub const LAST: Flags = Flags(1);
    /// The sender wants an acknowledgement without delay.
    pub const ACK_NOW: Flags = Flags(2);
    /// The frame was sent before.
    pub const RESENT: Flags = Flags(4);

    /// The last frame of a message, which is forwarded at once.
    pub const FLUSH: Flags = Flags(8);
    /// Request, with FLUSH, for a report when all applications behind have consumed the message.
    pub const REPORT: Flags = Flags(16);

    /// Flags that the origin sets and no host on the way changes: they are sealed with the payload.
    pub const SEALED: Flags = Flags(Flags::LAST.0 | Flags::FLUSH.0 | Flags::REPORT.0);

    /// Returns the names of the known bits that are set, lowest first.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        ["LAST", "ACK_NOW", "RESENT", "FLUSH", "REPORT"]
            .into_iter()
            .enumerate()
            .filter(move |(bit, _)| self.0 >> bit & 1 == 1)
            .map(|(_, name)| name)
    }

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn sealed(self) -> Flags {
        Flags(self.0 & Flags::SEALED.0)
    }

    /// Returns the union of both sets.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// Kind of a frame, as in the header.
///
/// The wire format carries any kind; the owner of a number declares it as a constant. 1–15 are
/// streams' and 32–39 messages', both below; 16–31 and 48–55 sessions' and 40–47 communicators',
/// declared there; 128–255 are free for other machines. Each number has one meaning, so that tools
/// can decode a frame by its kind alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// One frame of a stream.
    pub const DATA: Kind = Kind(1);
    /// Acknowledgement: a reader's cursor, credit and holes.
    pub const ACK: Kind = Kind(2);
    /// Last sequence number sent, and a request for an acknowledgement.
    pub const HEARTBEAT: Kind = Kind(3);
    /// Parity frame of a block of a stream's frames.
    pub const PARITY: Kind = Kind(4);
    /// Announcement of one of a host's two interfaces, which its port sends and takes itself.
    pub const LANE: Kind = Kind(5);
    /// Pushed part of a message, sent without a grant.
    pub const PUSH: Kind = Kind(32);
    /// Pulled part of a message, sent after a grant.
    pub const PULL: Kind = Kind(33);
    /// Control message about a message or the room for messages: grant, refusal, withdrawal; with
    /// an acknowledgement.
    pub const NOTE: Kind = Kind(34);
    /// Acknowledgement of frames of messages and notes.
    pub const RECEIPT: Kind = Kind(35);
    /// Last sequence number of messages and notes sent, and a request for a receipt.
    pub const ASK: Kind = Kind(36);

    /// Whether frames of this kind belong to a stream.
    pub const fn is_of_stream(self) -> bool {
        matches!(
            self,
            Kind::DATA | Kind::PARITY | Kind::ACK | Kind::HEARTBEAT
        )
    }
}

/// Last of the older protocol versions, of which frames are parsed just enough to name the hosts
/// that send them.
const LAST_OLDER_VERSION: u8 = 5;
const OLDER_VERSION_AT: usize = ETHERNET_BYTES + 2;
const OLDER_PAYLOAD_BYTES: Range<usize> = ETHERNET_BYTES + 14..ETHERNET_BYTES + 16;
const OLDER_CHECKSUM: Range<usize> = OVERHEAD_BYTES - 4..OVERHEAD_BYTES;

/// Returns the payload of an intact frame of an older version. Its checksum was CRC-32 of both
/// headers, with the checksum's own bytes as zero, and the payload.
pub fn older_payload(frame: &[u8]) -> Option<&[u8]> {
    let (headers, rest) = frame.split_first_chunk::<OVERHEAD_BYTES>()?;
    let known = (1..=LAST_OLDER_VERSION).contains(&headers[OLDER_VERSION_AT]);
    let payload_bytes = u16::from_be_bytes([
        headers[OLDER_PAYLOAD_BYTES.start],
        headers[OLDER_PAYLOAD_BYTES.start + 1],
    ]);
    let payload = rest.get(..payload_bytes.into()).filter(|_| known)?;
    let mut hasher = crc32fast::Hasher::new();
    [&headers[..OLDER_CHECKSUM.start], &[0; 4], payload]
        .into_iter()
        .for_each(|part| hasher.update(part));
    (headers[OLDER_CHECKSUM] == hasher.finalize().to_be_bytes()).then_some(payload)
}

#[cfg(test)]
mod tests;
