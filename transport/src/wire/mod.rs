//! Wire formats: Ethernet header, ethbcast header and acknowledgement, specified in
//! `docs/protocol/README.md`.
//!
//! Parsing never panics: an invalid frame is a [`Reject`] to be counted. Writing panics only if the
//! caller's buffer is shorter than the frame.
//!
//! Other protocols can use this frame format: kinds from 128 are free for them.
//!
//! ```
//! use ethbcast_transport::wire::{EtherType, Flags, Guard, Header, Identity, Kind, MacAddr, Rank, Reject, StreamId};
//!
//! const TEMPERATURE: Kind = Kind(200);
//! let [own, other] = [1, 2].map(|last| MacAddr::new(2, 0, 0, 0, 0, last));
//! let (stream, rank, ether_type) = (StreamId(0), Rank(3), EtherType::DEFAULT);
//! let guard = Guard::Plain;
//! let identity = Identity { session: 7, stream, rank, mac: own, ether_type, guard };
//! let mut buffer = [0; 1514];
//! let header = Header { sequence: 41, flags: Flags::ACK_NOW, ..identity.header(TEMPERATURE) };
//! let length = identity.write(&mut buffer, other, &header, b"21.5");
//!
//! let frame = identity.guard.parse(&buffer[..length])?;
//! assert_eq!((frame.source, frame.header, frame.payload), (own, header, &b"21.5"[..]));
//! buffer[length - 1] ^= 1;
//! assert_eq!(identity.guard.parse(&buffer[..length]).err(), Some(Reject::Damaged));
//! # Ok::<(), Reject>(())
//! ```

#[doc(hidden)]
mod ack;
#[doc(hidden)]
mod counter;
mod ether_type;
#[doc(hidden)]
mod guard;
mod header;
mod mac;
#[doc(hidden)]
mod parity;

#[doc(hidden)]
pub use ack::{Ack, AckBody, MAX_BITMAP_BYTES};
#[doc(hidden)]
pub use counter::{Counter, CounterWindow, FINAL_NUMBER};
pub use ether_type::{EtherType, ParseEtherTypeError};
#[doc(hidden)]
pub use guard::{ContentChecksum, Guard, PayloadHash, Secret};
pub(crate) use header::damage;
#[doc(hidden)]
pub use header::older_payload;
pub use header::{
    ETHERNET_BYTES, EthernetHeader, Flags, Frame, HEADER_BYTES, Header, KEYED_VERSION, Kind,
    MAX_SEQUENCE, OVERHEAD_BYTES, OtherVersion, Reject, UnprovenFrame, VERSION, destination, parse,
    parse_headers, parse_keyed, seal,
};
pub use mac::{MacAddr, ParseMacError, Rank, StreamId};
#[doc(hidden)]
pub use parity::Parity;

/// Returns the locally administered multicast address of a group, derived from its name so that
/// receivers can filter on it in the kernel before they have received anything (two names collide
/// with probability 2⁻⁴⁰; the session number then distinguishes them).
pub fn group_mac(group: &str) -> MacAddr {
    // FNV-1a: stable across versions and platforms, which a hasher of the standard library does not
    // promise.
    let hash = group.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let [_, _, _, a, b, c, d, e] = hash.to_be_bytes();
    MacAddr::new(0x03, a, b, c, d, e)
}

/// A host in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Rank in the group.
    pub rank: Rank,
    /// Address of its interface.
    pub mac: MacAddr,
}

/// Sender fields of every frame of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Session, drawn at random by its root.
    pub session: u32,
    /// Stream within the session.
    pub stream: StreamId,
    /// Own rank.
    pub rank: Rank,
    /// Address of the own interface.
    pub mac: MacAddr,
    /// The EtherType in use.
    pub ether_type: EtherType,
    /// Protection of its frames.
    pub guard: Guard,
}

impl Identity {
    /// Returns a header of this sender with only its kind: no view, flags, number or stamp.
    pub const fn header(&self, kind: Kind) -> Header {
        let Identity {
            session,
            stream,
            rank,
            ..
        } = *self;
        Header {
            kind,
            session,
            stream,
            rank,
            epoch: 0,
            flags: Flags(0),
            sequence: 0,
            stamp: 0,
        }
    }

    /// Returns the place of the payload in a buffer for one frame.
    ///
    /// # Panics
    /// If `buffer` is shorter than the headers.
    pub fn payload_of<'a>(&self, buffer: &'a mut [u8]) -> &'a mut [u8] {
        &mut buffer[self.guard.overhead_bytes()..]
    }

    /// Completes the frame in `buffer` from this sender to `destination`, whose payload is already
    /// [in place](Identity::payload_of); returns its length.
    ///
    /// # Panics
    /// The panics of [`seal`].
    pub fn seal(
        &self,
        buffer: &mut [u8],
        destination: MacAddr,
        header: &Header,
        payload_bytes: usize,
    ) -> usize {
        self.guard
            .seal(buffer, self.link(destination), header, payload_bytes)
    }

    /// Writes a whole frame from this sender to `destination` into `buffer`; returns its length.
    ///
    /// # Panics
    /// The panics of [`seal`].
    pub fn write(
        &self,
        buffer: &mut [u8],
        destination: MacAddr,
        header: &Header,
        payload: &[u8],
    ) -> usize {
        self.payload_of(buffer)[..payload.len()].copy_from_slice(payload);
        self.seal(buffer, destination, header, payload.len())
    }

    /// Completes the frame in `buffer`, as [`seal`](Identity::seal) does, from the `content` kept
    /// beside its payload, which need not be in the buffer.
    ///
    /// # Panics
    /// The panics of [`seal`].
    pub fn seal_around(
        &self,
        buffer: &mut [u8],
        destination: MacAddr,
        header: &Header,
        payload_bytes: usize,
        content: ContentChecksum,
    ) -> usize {
        self.guard.seal_again(
            buffer,
            self.link(destination),
            header,
            payload_bytes,
            content,
        )
    }

    fn link(&self, destination: MacAddr) -> EthernetHeader {
        EthernetHeader {
            source: self.mac,
            destination,
            ether_type: self.ether_type,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_address_is_multicast_locally_administered_and_depends_on_the_name() {
        let mac = group_mac("ethbcast");
        assert!(mac.is_multicast() && mac.is_local());
        assert_ne!(mac, group_mac("ethbcasu"));
        assert_eq!(mac, group_mac("ethbcast"));
    }
}
