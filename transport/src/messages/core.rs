//! What all peers of a mailbox share at this host: who we are, the stamps, the ledger, the counters.

use super::ledger::Ledger;
use super::stats::MailboxStats;
use crate::arq::stamp::{Stamp, Stamps};
use crate::wire::{Flags, Header, Identity, Kind, MacAddr};

/// This host's end of the traffic with all peers: a record that each channel is lent while it works.
#[derive(Clone, Debug)]
pub(super) struct MailboxCore {
    pub identity: Identity,
    pub payload_bytes: usize,
    pub stamps: Stamps,
    pub ledger: Ledger,
    pub stats: MailboxStats,
}

/// What the header of a frame says beside its sender: kind, flags, sequence and stamp.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label(pub Kind, pub Flags, pub u64, pub Stamp);

impl MailboxCore {
    /// Completes the frame in `buffer`, whose payload lies there already; returns its length.
    pub(super) fn seal(&self, to: MacAddr, label: Label, buffer: &mut [u8], payload_bytes: usize) -> usize {
        let Label(kind, flags, sequence, stamp) = label;
        let header = Header { flags, sequence, stamp: stamp.0, ..self.identity.header(kind) };
        self.identity.seal(buffer, to, &header, payload_bytes)
    }
}
