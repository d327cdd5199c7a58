//! What a receiver owes its sender: the newest stamp, and an acknowledgement when it falls due.

use super::sender_clock::SenderClock;
use super::stamp::Stamp;
use crate::time::Instant;

/// An acknowledgement that is owed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receipt {
    stamps: SenderClock,
    unacknowledged: u64,
    due: Option<Instant>,
    /// It has fallen due and waits for room to be sent.
    ready: bool,
    gap_reported_at: Option<u64>,
}

impl Receipt {
    /// Takes the stamp of a frame, whatever becomes of the frame.
    pub(crate) fn note_stamp(&mut self, now: Instant, stamp: u32) {
        self.stamps.take(now, Stamp(stamp));
    }

    /// Another sender draws stamps of its own.
    pub(crate) fn forget_stamps(&mut self) {
        self.stamps = SenderClock::default();
    }

    /// When it is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Counts a frame; how many have come since the last acknowledgement.
    pub(crate) fn count(&mut self) -> u64 {
        self.unacknowledged += 1;
        self.unacknowledged
    }

    /// Whether a gap has not been reported yet: each is once. `at` tells gaps apart.
    pub(crate) fn is_new_gap(&mut self, at: u64) -> bool {
        self.gap_reported_at.replace(at) != Some(at)
    }

    /// Acknowledges at `at` if not before.
    pub(crate) fn hasten(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Makes it ready, whether it is due or not; whether it was not.
    pub(crate) fn make_ready(&mut self) -> bool {
        !std::mem::replace(&mut self.ready, true)
    }

    /// What has fallen due is ready, and needs no timer any more.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        if self.due.take_if(|due| *due <= now).is_some() {
            self.ready = true;
        }
    }

    /// Whether it is to be sent now.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready
    }

    /// It is sent, and nothing is owed any more; the stamp to echo, and for how many µs it was held.
    pub(crate) fn settle(&mut self, now: Instant) -> (Stamp, u32) {
        (self.unacknowledged, self.due, self.ready) = (0, None, false);
        self.stamps.newest(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_owed_is_due_at_the_earliest_wish_and_settled_at_once() {
        let at = |ms| Instant::START + Duration::from_millis(ms);
        let mut receipt = Receipt::default();
        receipt.note_stamp(at(1), 50);
        receipt.note_stamp(at(2), 40);
        assert_eq!((receipt.count(), receipt.count()), (1, 2));
        receipt.hasten(at(7));
        receipt.hasten(at(5));
        receipt.hasten(at(6));
        receipt.on_timeout(at(4));
        assert!(!receipt.is_ready() && receipt.due() == Some(at(5)));
        receipt.on_timeout(at(5));
        assert!(receipt.is_ready() && receipt.due().is_none());
        assert_eq!(receipt.settle(at(6)), (Stamp(50), 5000));
        assert!(!receipt.is_ready() && receipt.count() == 1);
        assert!(receipt.is_new_gap(3) && !receipt.is_new_gap(3) && receipt.is_new_gap(4));
        receipt.forget_stamps();
        assert_eq!(receipt.settle(at(9)), (Stamp::NONE, 0));
    }
}
