//! Identity of a sending host (session, MAC address, number), from which the header of each frame is written.

use super::{ContentChecksum, EtherType, EthernetHeader, Flags, Guard, Header, Kind, MacAddr, Rank, StreamId};

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
        let Identity { session, stream, rank, .. } = *self;
        Header { kind, session, stream, rank, epoch: 0, flags: Flags(0), sequence: 0, stamp: 0 }
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
    /// The panics of [`seal`](super::seal).
    pub fn seal(&self, buffer: &mut [u8], destination: MacAddr, header: &Header, payload_bytes: usize) -> usize {
        self.guard.seal(buffer, self.link(destination), header, payload_bytes)
    }

    /// Writes a whole frame from this sender to `destination` into `buffer`; returns its length.
    ///
    /// # Panics
    /// The panics of [`seal`](super::seal).
    pub fn write(&self, buffer: &mut [u8], destination: MacAddr, header: &Header, payload: &[u8]) -> usize {
        self.payload_of(buffer)[..payload.len()].copy_from_slice(payload);
        self.seal(buffer, destination, header, payload.len())
    }

    /// Completes the frame in `buffer`, as [`seal`](Identity::seal) does, from the `content` kept beside its payload,
    /// which need not be in the buffer.
    ///
    /// # Panics
    /// The panics of [`seal`](super::seal).
    pub fn seal_around(
        &self,
        buffer: &mut [u8],
        destination: MacAddr,
        header: &Header,
        payload_bytes: usize,
        content: ContentChecksum,
    ) -> usize {
        self.guard.seal_again(buffer, self.link(destination), header, payload_bytes, content)
    }

    fn link(&self, destination: MacAddr) -> EthernetHeader {
        EthernetHeader { source: self.mac, destination, ether_type: self.ether_type }
    }
}
