//! Addresses of hosts in frames.

use super::{
    ContentChecksum, EtherType, EthernetHeader, Flags, Header, Kind, MacAddr, OVERHEAD_BYTES, Rank, StreamId, seal,
    seal_again,
};

/// A host in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Rank in the group.
    pub rank: Rank,
    /// Address of its interface.
    pub mac: MacAddr,
}

/// Sender fields of every frame of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

impl Identity {
    /// Returns a header of this sender with only its kind: no view, flags, number or stamp.
    pub const fn header(&self, kind: Kind) -> Header {
        let Identity { session, stream, rank, .. } = *self;
        Header { kind, session, stream, rank, epoch: 0, flags: Flags(0), sequence: 0, stamp: 0 }
    }

    /// Completes the frame in `buffer` from this sender to `destination`, whose payload is already
    /// in place at [`OVERHEAD_BYTES`]; returns its length.
    ///
    /// # Panics
    /// The panics of [`seal`].
    pub fn seal(&self, buffer: &mut [u8], destination: MacAddr, header: &Header, payload_bytes: usize) -> usize {
        seal(buffer, self.link(destination), header, payload_bytes)
    }

    /// Writes a whole frame from this sender to `destination` into `buffer`; returns its length.
    ///
    /// # Panics
    /// The panics of [`seal`].
    pub fn write(&self, buffer: &mut [u8], destination: MacAddr, header: &Header, payload: &[u8]) -> usize {
        buffer[OVERHEAD_BYTES..][..payload.len()].copy_from_slice(payload);
        self.seal(buffer, destination, header, payload.len())
    }

    /// Completes the frame in `buffer`, as [`seal`](Identity::seal) does, from the checksum
    /// `content` of its sealed part; the payload need not be in the buffer.
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
        seal_again(buffer, self.link(destination), header, payload_bytes, content)
    }

    fn link(&self, destination: MacAddr) -> EthernetHeader {
        EthernetHeader { source: self.mac, destination, ether_type: self.ether_type }
    }
}
