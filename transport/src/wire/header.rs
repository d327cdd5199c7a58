//! The 14-byte Ethernet header and the 32-byte ethbcast header behind it.
//!
//! The ethbcast header has two parts. The part of one hop (addresses, sender, stamp) is written
//! anew by each host and lies in front of the checksum. The part sealed by the origin (session,
//! stream, length, number, payload) lies behind it in one piece, and no host on the way changes it.

use super::checksum::ContentChecksum;
use super::{EtherType, Flags, Kind, MacAddr, Rank, StreamId};
use std::ops::Range;
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the Ethernet header.
pub const ETHERNET_BYTES: usize = 14;
/// Bytes of the ethbcast header.
pub const HEADER_BYTES: usize = 32;
/// Bytes of a frame that are not payload.
pub const OVERHEAD_BYTES: usize = ETHERNET_BYTES + HEADER_BYTES;

const MAGIC: u16 = 0x4542;
/// Protocol version of this build, incremented with every change of a layout. Magic, version and
/// kind keep their places in the header, so that different builds recognise each other.
pub const VERSION: u8 = 6;
const DESTINATION: Range<usize> = 0..6;
const SOURCE: Range<usize> = 6..12;
const ETHER_TYPE: Range<usize> = 12..ETHERNET_BYTES;
const SEATS: Range<usize> = ETHERNET_BYTES + 6..ETHERNET_BYTES + 8;
const HOP: Range<usize> = 0..ETHERNET_BYTES + 14;
const CHECKSUM: Range<usize> = HOP.end..HOP.end + 4;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: U16,
    version: u8,
    kind: u8,
    rank: U16,
    seats: [u8; 2],
    stamp: U32,
    epoch: u8,
    flags: u8,
    checksum: U32,
    session: U32,
    stream: U16,
    payload_bytes: U16,
    sequence: [u8; 6],
}

/// The ethbcast header, without derived fields (magic, version, length, checksum).
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
    /// Returns the checksum of the sealed part of a frame with this header and payload.
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
        ContentChecksum::of(&[self.kind.0, flags, a, b, c, d, e, f, g, h, i, j, k, l, m, n], payload)
    }
}

/// Highest number of a frame in its stream, 48 bits: a month at a hundred million frames a second.
pub const MAX_SEQUENCE: u64 = (1 << 48) - 1;

/// The Ethernet header (IEEE 802.3 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetHeader {
    /// The sending interface.
    pub source: MacAddr,
    /// The receiving interface or the group.
    pub destination: MacAddr,
    /// The EtherType in use.
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
    /// Checksum of the part sealed by its origin.
    pub content: ContentChecksum,
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
    /// The checksum does not match: damaged on the way.
    Damaged,
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

/// Completes the frame in `buffer`, whose payload of `payload_bytes` is already in place at
/// [`OVERHEAD_BYTES`]; returns its length.
///
/// # Panics
/// If `buffer` is shorter than the frame or the payload longer than 65 535 bytes.
pub fn seal(buffer: &mut [u8], ethernet: EthernetHeader, header: &Header, payload_bytes: usize) -> usize {
    let frame = write_headers(buffer, ethernet, header, payload_bytes);
    let content = header.content(&frame[OVERHEAD_BYTES..]);
    write_checksum(frame, content)
}

/// Completes a frame whose sealed part has the checksum `content`, so that only the part of this
/// hop is summed; returns its length.
///
/// # Panics
/// The panics of [`seal`].
pub fn seal_again(
    buffer: &mut [u8],
    ethernet: EthernetHeader,
    header: &Header,
    payload_bytes: usize,
    content: ContentChecksum,
) -> usize {
    write_checksum(write_headers(buffer, ethernet, header, payload_bytes), content)
}

fn write_headers<'a>(
    buffer: &'a mut [u8],
    ethernet: EthernetHeader,
    header: &Header,
    payload_bytes: usize,
) -> &'a mut [u8] {
    let frame = &mut buffer[..OVERHEAD_BYTES + payload_bytes];
    frame[DESTINATION].copy_from_slice(&ethernet.destination.octets());
    frame[SOURCE].copy_from_slice(&ethernet.source.octets());
    frame[ETHER_TYPE].copy_from_slice(&ethernet.ether_type.octets());
    let raw = RawHeader {
        magic: U16::new(MAGIC),
        version: VERSION,
        kind: header.kind.0,
        rank: U16::new(header.rank.0),
        seats: [ethernet.destination.seat(), ethernet.source.seat()],
        stamp: U32::new(header.stamp),
        epoch: header.epoch,
        flags: header.flags.0,
        checksum: U32::ZERO,
        session: U32::new(header.session),
        stream: U16::new(header.stream.0),
        payload_bytes: U16::new(u16::try_from(payload_bytes).expect("a payload fits in 16 bits")),
        sequence: low_bytes(header.sequence),
    };
    frame[ETHERNET_BYTES..OVERHEAD_BYTES].copy_from_slice(raw.as_bytes());
    frame
}

fn write_checksum(frame: &mut [u8], content: ContentChecksum) -> usize {
    let checksum = content.on_this_hop(&frame[HOP]);
    frame[CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
    frame.len()
}

fn low_bytes(sequence: u64) -> [u8; 6] {
    let [_, _, low @ ..] = sequence.to_be_bytes();
    low
}

/// Returns the destination of a frame of this protocol, local port id included; `None` if it is shorter than
/// its headers.
#[inline]
pub fn destination(frame: &[u8]) -> Option<MacAddr> {
    let (headers, _) = frame.split_first_chunk::<OVERHEAD_BYTES>()?;
    let [a, b, c, d, e, f, ..] = *headers;
    Some(MacAddr::new(a, b, c, d, e, f).with_seat(headers[SEATS.start]))
}

/// Changes a byte of the payload (`byte` modulo its length) and corrects the checksum, as memory or
/// hardware errors before checksumming do. Leaves frames without payload or of other protocols
/// alone.
pub(crate) fn damage(frame: &mut [u8], byte: usize) {
    let Some((header, payload_bytes)) = parse(frame).ok().map(|frame| (frame.header, frame.payload.len())) else {
        return;
    };
    if payload_bytes > 0 {
        let frame = &mut frame[..OVERHEAD_BYTES + payload_bytes];
        frame[OVERHEAD_BYTES + byte % payload_bytes] ^= 0x55;
        let content = header.content(&frame[OVERHEAD_BYTES..]);
        write_checksum(frame, content);
    }
}

/// Parses a frame and verifies its checksum, which covers all of it: `docs/protocol/frames.md` §3.
#[inline]
pub fn parse(frame: &[u8]) -> Result<Frame<'_>, Reject> {
    let (ethernet, raw, rest) = split(frame)?;
    let payload = rest.get(..usize::from(raw.payload_bytes.get())).ok_or(Reject::Short)?;
    let header = raw.header();
    let content = header.content(payload);
    if content.on_this_hop(&frame[HOP]) != raw.checksum.get() && !planted!("checksum-not-compared") {
        return Err(Reject::Damaged);
    }
    Ok(Frame { source: raw.source(ethernet), header, payload, content })
}

/// Parses the headers of a truncated frame, with as much of its payload as there is; returns also
/// the full length of the payload. Nothing is verified: this is for diagnostic tools only.
pub fn parse_headers(frame: &[u8]) -> Result<(Frame<'_>, usize), Reject> {
    let (ethernet, raw, rest) = split(frame)?;
    let payload_bytes = usize::from(raw.payload_bytes.get());
    let (source, payload) = (raw.source(ethernet), &rest[..rest.len().min(payload_bytes)]);
    Ok((Frame { source, header: raw.header(), payload, content: ContentChecksum::default() }, payload_bytes))
}

#[inline]
fn split(frame: &[u8]) -> Result<(&[u8; ETHERNET_BYTES], &RawHeader, &[u8]), Reject> {
    let (ethernet, rest) = frame.split_first_chunk::<ETHERNET_BYTES>().ok_or(Reject::Short)?;
    let (raw, rest) = RawHeader::ref_from_prefix(rest).map_err(|_| Reject::Short)?;
    if raw.magic.get() != MAGIC {
        return Err(Reject::Foreign);
    }
    if raw.version != VERSION {
        let (version, kind, source) = (raw.version, Kind(raw.kind), source_of(ethernet));
        return Err(Reject::Version(OtherVersion { version, kind, source }));
    }
    Ok((ethernet, raw, rest))
}

impl RawHeader {
    #[inline]
    fn header(&self) -> Header {
        Header {
            kind: Kind(self.kind),
            session: self.session.get(),
            stream: StreamId(self.stream.get()),
            rank: Rank(self.rank.get()),
            epoch: self.epoch,
            flags: Flags(self.flags),
            sequence: self.sequence.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)),
            stamp: self.stamp.get(),
        }
    }

    #[inline]
    fn source(&self, ethernet: &[u8; ETHERNET_BYTES]) -> MacAddr {
        source_of(ethernet).with_seat(self.seats[1])
    }
}

fn source_of(ethernet: &[u8; ETHERNET_BYTES]) -> MacAddr {
    let [_, _, _, _, _, _, a, b, c, d, e, f, ..] = *ethernet;
    MacAddr::new(a, b, c, d, e, f)
}

#[cfg(test)]
mod tests;
