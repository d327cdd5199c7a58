//! Hosts as frames name them.

use super::{
    ContentChecksum, EtherType, EthernetHeader, Flags, Header, Kind, MacAddr, OVERHEAD_BYTES, Rank, StreamId, seal,
    seal_again,
};

/// A host as a stream knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its rank in the group.
    pub rank: Rank,
    /// Its interface.
    pub mac: MacAddr,
}

/// What every frame of a stream says about its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The session, drawn at random by its root.
    pub session: u32,
    /// The stream within the session.
    pub stream: StreamId,
    /// The own rank.
    pub rank: Rank,
    /// The own interface.
    pub mac: MacAddr,
    /// The EtherType in use.
    pub ether_type: EtherType,
}

impl Identity {
    /// A header of this sender with nothing but its kind: no view, no flags, no number, no stamp.
    pub const fn header(&self, kind: Kind) -> Header {
        let Identity { session, stream, rank, .. } = *self;
        Header { kind, session, stream, rank, epoch: 0, flags: Flags(0), sequence: 0, stamp: 0 }
    }

    /// Completes the frame in `buffer` from this sender to `destination`, whose payload already lies at
    /// [`OVERHEAD_BYTES`]; its length.
    ///
    /// # Panics
    /// As [`seal`].
    pub fn seal(&self, buffer: &mut [u8], destination: MacAddr, header: &Header, payload_bytes: usize) -> usize {
        seal(buffer, self.link(destination), header, payload_bytes)
    }

    /// Writes a whole frame from this sender to `destination` into `buffer`; its length.
    ///
    /// # Panics
    /// As [`seal`].
    pub fn write(&self, buffer: &mut [u8], destination: MacAddr, header: &Header, payload: &[u8]) -> usize {
        buffer[OVERHEAD_BYTES..][..payload.len()].copy_from_slice(payload);
        self.seal(buffer, destination, header, payload.len())
    }

    /// Completes the frame in `buffer`, as [`seal`](Identity::seal) would, whose payload `content` vouches for: it need
    /// not lie there.
    ///
    /// # Panics
    /// As [`seal`].
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
