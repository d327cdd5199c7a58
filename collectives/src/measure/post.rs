//! Writing frames.

use super::body::ProbeBody;
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::Identity;
use ethbcast_transport::wire::{self, EthernetHeader, Flags, Header, Kind, OVERHEAD_BYTES};

/// What every PROBE of a prober has in common, and the numbers of its tests.
#[derive(Debug)]
pub(super) struct Post {
    identity: Identity,
    test: u32,
}

/// One PROBE to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) to: MacAddr,
    pub(super) test: u32,
    /// The frame's number within its message or train.
    pub(super) index: u64,
    pub(super) flags: Flags,
    pub(super) body: ProbeBody,
    /// The payload's length, body included.
    pub(super) payload_bytes: usize,
}

impl Post {
    /// `test` is the number before the first one. Within a session numbers must grow, from one prober to the next, too.
    pub(super) fn new(identity: Identity, test: u32) -> Post {
        Post { identity, test }
    }

    pub(super) fn session(&self) -> u32 {
        self.identity.session
    }

    /// A number for a new test.
    pub(super) fn draw(&mut self) -> u32 {
        self.test = self.test.wrapping_add(1);
        self.test
    }

    /// Writes one frame and returns its length.
    pub(super) fn write(&self, buffer: &mut [u8], probe: &Probe) -> usize {
        let payload = &mut buffer[OVERHEAD_BYTES..][..probe.payload_bytes];
        payload[ProbeBody::BYTES..].fill(0);
        probe.body.write(payload);
        let header = header(&self.identity, crate::measure::kind::PROBE, probe.test, probe.index, probe.flags);
        wire::seal(buffer, link(&self.identity, probe.to), &header, probe.payload_bytes)
    }
}

/// A header of one of the three kinds: the test's number lies where streams have their stamp.
pub(super) fn header(identity: &Identity, kind: Kind, test: u32, index: u64, flags: Flags) -> Header {
    let Identity { session, rank, .. } = *identity;
    Header { kind, session, stream: 0, rank, epoch: 0, flags, sequence: index, stamp: test }
}

/// From this host to another.
pub(super) fn link(identity: &Identity, destination: MacAddr) -> EthernetHeader {
    EthernetHeader { source: identity.mac, destination, ether_type: identity.ether_type }
}
