//! Queue of control messages that wait to be sent.

use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::{Header, Identity, Kind};
use std::collections::VecDeque;

/// Control messages that wait to be sent. Messages without room are dropped: all are repeated or
/// requested again.
#[derive(Clone, Debug)]
pub(crate) struct ControlQueue {
    queue: VecDeque<(MacAddr, Header, Vec<u8>)>,
    room: usize,
}

impl ControlQueue {
    pub(crate) fn new(room: usize) -> ControlQueue {
        ControlQueue { queue: VecDeque::new(), room }
    }

    pub(crate) fn put(&mut self, to: MacAddr, header: Header, body: Vec<u8>) {
        if self.queue.len() < self.room {
            self.queue.push_back((to, header, body));
        }
    }

    /// Queues a message in place of a waiting one of its kind for `to`.
    pub(crate) fn put_newest(&mut self, to: MacAddr, header: Header, body: Vec<u8>) {
        let same = |(other, waiting, _): &&mut (MacAddr, Header, Vec<u8>)| *other == to && waiting.kind == header.kind;
        match self.queue.iter_mut().find(same) {
            Some(waiting) => *waiting = (to, header, body),
            None => self.put(to, header, body),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<(MacAddr, Header, Vec<u8>)> {
        self.queue.pop_front()
    }

    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.queue.len(), self.queue.iter().map(|(_, _, body)| body.len()).sum())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.queue.clear();
    }
}

/// Returns the header of a control message sent under view `epoch`; only the epoch's lowest byte is
/// sent.
pub(crate) fn header(from: &Identity, kind: Kind, epoch: u32) -> Header {
    Header { epoch: epoch as u8, ..from.header(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::Station;
    use ethbcast_transport::wire::Rank;

    #[test]
    fn among_queued_signs_of_life_the_newest_counts_and_no_queue_grows_without_limit() {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let [a, b] = [2, 3].map(|last| MacAddr::new(2, 0, 0, 0, 0, last));
        let of_kind = |kind| header(&station.identity(1, Rank::ROOT), Kind(kind), 0);
        let mut queue = ControlQueue::new(4);
        (0..9).for_each(|number| queue.put_newest(a, of_kind(21), vec![number]));
        (0..9).for_each(|number| queue.put(a, of_kind(19), vec![number]));
        queue.put_newest(b, of_kind(21), vec![7]);
        let sent: Vec<_> =
            std::iter::from_fn(|| queue.pop()).map(|(_, header, body)| (header.kind.0, body[0])).collect();
        assert_eq!(sent, [(21, 8), (19, 0), (19, 1), (19, 2)]);
        assert!(queue.is_empty());
    }
}
