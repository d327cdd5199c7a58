//! Control messages on their way out, and what every station of a session knows about itself.

use crate::session::Message;
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::{self, Flags, Header, Link, OVERHEAD_BYTES};
use std::collections::VecDeque;

/// This host's place on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Station {
    /// Host name, as it appears in reports and topology files.
    pub host: String,
    /// Name of the group.
    pub group: String,
    /// The interface.
    pub mac: MacAddr,
    /// The group's multicast address.
    pub group_mac: MacAddr,
    /// The EtherType in use.
    pub ether_type: u16,
    /// The link's MTU, in bytes.
    pub mtu_bytes: u16,
}

/// Counters of a session's frames, stream frames not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlStats {
    /// Control frames sent.
    pub sent: u64,
    /// Control frames received and understood.
    pub received: u64,
    /// Frames of another session or from hosts that are no members.
    pub strangers: u64,
    /// Frames that did not parse.
    pub malformed: u64,
}

/// The queue of control messages.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<(MacAddr, Header, Vec<u8>)>,
}

impl Outbox {
    /// Queues `message` for `to`.
    pub(crate) fn put(&mut self, to: MacAddr, session: u32, rank: u16, epoch: u32, message: &Message) {
        let header = Header {
            kind: message.kind(),
            session,
            stream: 0,
            rank,
            epoch: epoch as u8,
            flags: Flags::default(),
            sequence: 0,
            stamp: 0,
        };
        self.queue.push_back((to, header, message.encode()));
    }

    /// Writes the oldest queued message as a frame.
    pub(crate) fn poll(&mut self, station: &Station, stats: &mut ControlStats, buffer: &mut [u8]) -> Option<usize> {
        let (to, header, body) = self.queue.pop_front()?;
        stats.sent += 1;
        buffer[OVERHEAD_BYTES..][..body.len()].copy_from_slice(&body);
        let link = Link { source: station.mac, destination: to, ether_type: station.ether_type };
        Some(wire::seal(buffer, link, &header, body.len()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
