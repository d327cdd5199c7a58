//! Writing PROBE frames, and the headers of all three kinds.

use super::body::ProbeBody;
use super::kind;
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::{Flags, Header, Identity, Kind, OVERHEAD_BYTES};

/// What every PROBE of a prober has in common, and the numbers of its tests.
#[derive(Debug)]
pub(super) struct ProbeWriter {
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

impl ProbeWriter {
    /// `test` is the number before the first one. Within a session numbers must grow, from one prober to the next, too.
    pub(super) fn new(identity: Identity, test: u32) -> ProbeWriter {
        ProbeWriter { identity, test }
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
        let header = header(&self.identity, kind::PROBE, probe.test, probe.index, probe.flags);
        self.identity.seal(buffer, probe.to, &header, probe.payload_bytes)
    }
}

/// A header of one of the three kinds: the test's number lies where streams have their stamp.
pub(super) fn header(identity: &Identity, kind: Kind, test: u32, index: u64, flags: Flags) -> Header {
    Header { flags, sequence: index, stamp: test, ..identity.header(kind) }
}
