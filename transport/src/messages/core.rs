//! State shared by the message channels to all peers: identity, timestamps, open operations,
//! counters.

use super::operations::Operations;
use super::stats::MailboxStats;
use crate::arq::stamp::{Stamp, Stamps};
use crate::wire::{Flags, Header, Identity, Kind, MacAddr};

#[derive(Clone, Debug)]
pub(super) struct MailboxCore {
    pub identity: Identity,
    pub payload_bytes: usize,
    pub stamps: Stamps,
    pub ledger: Operations,
    pub stats: MailboxStats,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Label(pub Kind, pub Flags, pub u64, pub Stamp);

impl MailboxCore {
    pub(super) fn seal(&self, to: MacAddr, label: Label, buffer: &mut [u8], payload_bytes: usize) -> usize {
        let Label(kind, flags, sequence, stamp) = label;
        let header = Header { flags, sequence, stamp: stamp.0, ..self.identity.header(kind) };
        self.identity.seal(buffer, to, &header, payload_bytes)
    }
}
