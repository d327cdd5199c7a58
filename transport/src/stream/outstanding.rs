//! The repairs that one remote reader is owed: queued, or sent to it by unicast and not settled yet.

use crate::arq::stamp::Stamp;
use crate::wire::Ack;

/// A reader is owed at most so many repairs at a time; its next acknowledgement names again what else it lacks. Twice what one
/// link carries in a round trip at 1 Gbit/s, and 2 KiB.
pub(super) const MOST: usize = 128;

/// How many of the last repairs ask for an acknowledgement.
const ASKING: usize = 4;

/// Frames with the stamp under which each was last sent to this reader alone, none while it is queued. In rising order.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    entries: Vec<(u64, Stamp)>,
}

impl Outstanding {
    fn find(&self, sequence: u64) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&sequence, |&(sequence, _)| sequence)
    }

    /// The stamp of the last transmission to this reader alone; no stamp while the frame is queued.
    pub(super) fn get(&self, sequence: u64) -> Option<Stamp> {
        self.find(sequence).ok().map(|at| self.entries[at].1)
    }

    /// Queues a repair, for the first time or again; false if there is no room.
    pub(super) fn queue(&mut self, sequence: u64) -> bool {
        match self.find(sequence) {
            Ok(at) => self.entries[at].1 = Stamp::NONE,
            Err(_) if self.entries.len() >= MOST => return false,
            Err(at) => self.entries.insert(at, (sequence, Stamp::NONE)),
        }
        true
    }

    /// A queued repair has been sent.
    pub(super) fn sent(&mut self, sequence: u64, stamp: Stamp) {
        if let Ok(at) = self.find(sequence) {
            self.entries[at].1 = stamp;
        }
    }

    /// Forgets a frame.
    pub(super) fn remove(&mut self, sequence: u64) {
        if let Ok(at) = self.find(sequence) {
            self.entries.remove(at);
        }
    }

    /// Forgets what has arrived.
    pub(super) fn settle(&mut self, ack: &Ack<'_>) {
        if !self.entries.is_empty() {
            self.entries.retain(|&(sequence, _)| !ack.has(sequence));
        }
    }

    /// What is queued, lowest number first.
    pub(super) fn queued(&self) -> impl Iterator<Item = u64> + '_ {
        self.entries.iter().filter(|(_, stamp)| *stamp == Stamp::NONE).map(|&(sequence, _)| sequence)
    }

    /// Whether there is hardly room for others, so that only an acknowledgement helps. As the frame that asks for it may be lost
    /// like those before it, several do.
    pub(super) fn is_used_up(&self) -> bool {
        self.entries.len() >= MOST && self.queued().nth(ASKING).is_none()
    }

    /// Whether any has been sent and not settled.
    pub(super) fn is_sent(&self) -> bool {
        self.entries.iter().any(|&(_, stamp)| stamp != Stamp::NONE)
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<(u64, Stamp)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repair_is_queued_sent_queued_again_and_at_most_so_many_are_owed() {
        let mut outstanding = Outstanding::default();
        assert!(outstanding.queue(7) && outstanding.queue(3) && outstanding.queue(7));
        assert_eq!(outstanding.queued().collect::<Vec<_>>(), [3, 7]);
        outstanding.sent(3, Stamp(20));
        outstanding.sent(4, Stamp(21));
        assert_eq!((outstanding.get(3), outstanding.get(4), outstanding.get(7)), (Some(Stamp(20)), None, Some(Stamp::NONE)));
        assert!((100..100 + MOST as u64 - 2).all(|sequence| outstanding.queue(sequence)));
        assert!(!outstanding.queue(99) && outstanding.queue(3), "no room for another, but for one that is known");
        assert!(outstanding.bytes() <= MOST * 16);
    }
}
