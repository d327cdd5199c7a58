//! Writing of measurement requests (PROBE frames) and of their headers.

use super::body::{ProbeBody, Task};
use super::kind;
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::{Flags, Frame, Header, Identity, Kind};
use std::ops::Range;

/// Position of the nonce drawn by the addressed host in a PROBE to it: behind the fixed part.
const NONCE: Range<usize> = ProbeBody::BYTES..ProbeBody::BYTES + 8;

/// First test number of [pings](write_ping) to hosts that request to join; a prober's own tests
/// count below.
pub(crate) const FIRST_PING: u32 = 1 << 31;

#[derive(Clone, Debug)]
pub(super) struct ProbeWriter {
    identity: Identity,
    test: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub to: MacAddr,
    pub test: u32,
    pub index: u64,
    pub flags: Flags,
    pub body: ProbeBody,
    pub payload_bytes: usize,
}

impl Probe {
    pub(super) fn request(to: MacAddr, test: u32, index: u64) -> Probe {
        let body = ProbeBody::plain(Task::Ask);
        Probe { to, test, index, flags: Flags::default(), body, payload_bytes: ProbeBody::BYTES }
    }
}

impl ProbeWriter {
    /// Creates a writer; `test` is the number before the first test. Numbers must grow within a
    /// session, also from one prober to the next.
    pub(super) fn new(identity: Identity, test: u32) -> ProbeWriter {
        ProbeWriter { identity, test }
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(super) fn session(&self) -> u32 {
        self.identity.session
    }

    pub(super) fn draw(&mut self) -> u32 {
        self.test = self.test.wrapping_add(1);
        self.test
    }

    pub(super) fn write(&self, buffer: &mut [u8], probe: &Probe) -> usize {
        self.fill(buffer, probe);
        self.seal(buffer, probe)
    }

    pub(super) fn order(&self, buffer: &mut [u8], order: &Probe, payload: &[u8]) -> usize {
        let header = header(&self.identity, kind::PROBE, order.test, order.index, order.flags);
        self.identity.write(buffer, order.to, &header, payload)
    }

    fn fill<'a>(&self, buffer: &'a mut [u8], probe: &Probe) -> &'a mut [u8] {
        let payload = &mut self.identity.payload_of(buffer)[..probe.payload_bytes];
        payload[ProbeBody::BYTES..].fill(0);
        probe.body.write(payload);
        payload
    }

    fn seal(&self, buffer: &mut [u8], probe: &Probe) -> usize {
        let header = header(&self.identity, kind::PROBE, probe.test, probe.index, probe.flags);
        self.identity.seal(buffer, probe.to, &header, probe.payload_bytes)
    }
}

/// Writes a PROBE of one frame that the receiver echoes at equal length, and returns its length.
/// The ECHO has the test's number as its stamp. The frame carries `nonce`, which its receiver has
/// drawn, so that it cannot be forged in advance.
pub(crate) fn write_ping(
    buffer: &mut [u8],
    identity: &Identity,
    to: MacAddr,
    (test, nonce): (u32, u64),
    payload_bytes: usize,
) -> usize {
    let payload_bytes = payload_bytes.max(NONCE.end);
    let body = ProbeBody { task: Task::Ping, payload_bytes: payload_bytes as u16, number: payload_bytes as u32 };
    let probe = Probe { to, test, index: 0, flags: Flags::LAST, body, payload_bytes };
    let writer = ProbeWriter::new(identity.clone(), test);
    writer.fill(buffer, &probe)[NONCE].copy_from_slice(&nonce.to_be_bytes());
    writer.seal(buffer, &probe)
}

pub(crate) fn carries(probe: &Frame<'_>, nonce: u64) -> bool {
    probe.payload.get(NONCE) == Some(&nonce.to_be_bytes())
}

/// Returns a header of one of the three kinds; the test number takes the place of a stream's stamp.
pub(super) fn header(identity: &Identity, kind: Kind, test: u32, index: u64, flags: Flags) -> Header {
    Header { flags, sequence: index, stamp: test, ..identity.header(kind) }
}
