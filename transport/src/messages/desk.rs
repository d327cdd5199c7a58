//! What all peers of a mailbox share: who we are, the stamps, the ledger, the counters.

use super::ledger::Ledger;
use super::stats::MailboxStats;
use crate::arq::stamp::{Stamp, Stamps};
use crate::wire::Identity;
use crate::wire::MacAddr;
use crate::wire::{self, EthernetHeader, Flags, Header, Kind};

/// See the module's description.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) identity: Identity,
    pub(super) payload_bytes: usize,
    pub(super) stamps: Stamps,
    pub(super) ledger: Ledger,
    pub(super) stats: MailboxStats,
}

/// What the header of a frame says beside its sender: kind, flags, sequence and stamp.
pub(super) struct Label(pub(super) Kind, pub(super) Flags, pub(super) u64, pub(super) Stamp);

impl Desk {
    /// Completes the frame in `buffer`, whose payload lies there already; returns its length.
    pub(super) fn seal(&self, to: MacAddr, label: Label, buffer: &mut [u8], payload_bytes: usize) -> usize {
        let Identity { session, stream, rank, mac, ether_type } = self.identity;
        let Label(kind, flags, sequence, stamp) = label;
        let header = Header { kind, session, stream, rank, epoch: 0, flags, sequence, stamp: stamp.0 };
        wire::seal(buffer, EthernetHeader { source: mac, destination: to, ether_type }, &header, payload_bytes)
    }
}
