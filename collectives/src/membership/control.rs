//! Control messages on their way out.

use super::station::{ControlStats, Station};
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::{Header, Identity, Kind};
use std::collections::VecDeque;

/// The control messages that wait to be sent; they go before all data.
#[derive(Debug, Default)]
pub(crate) struct ControlQueue {
    queue: VecDeque<(MacAddr, Header, Vec<u8>)>,
}

impl ControlQueue {
    /// Queues a message for `to`; see [`header`].
    pub(crate) fn put(&mut self, to: MacAddr, header: Header, body: Vec<u8>) {
        self.queue.push_back((to, header, body));
    }

    /// Writes the oldest queued message as a frame.
    pub(crate) fn poll(&mut self, station: &Station, stats: &mut ControlStats, buffer: &mut [u8]) -> Option<usize> {
        let (to, header, body) = self.queue.pop_front()?;
        stats.sent += 1;
        Some(station.identity(header.session, header.rank).write(buffer, to, &header, &body))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// The header of a control message sent under view `epoch`; only its lowest byte travels.
pub(crate) fn header(from: &Identity, kind: Kind, epoch: u32) -> Header {
    Header { epoch: epoch as u8, ..from.header(kind) }
}
