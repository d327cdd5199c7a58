//! Acknowledgement owed to a sender: the newest stamp, and the time when it is due.

use super::sender_clock::SenderClock;
use super::stamp::Stamp;
use crate::time::Instant;

#[derive(Clone, Debug, Default)]
pub(crate) struct Receipt {
    stamps: SenderClock,
    unacknowledged: u64,
    due: Option<Instant>,
    ready: bool,
    gap_reported_at: Option<u64>,
}

impl Receipt {
    pub(crate) fn note_stamp(&mut self, now: Instant, stamp: u32) {
        self.stamps.take(now, Stamp(stamp));
    }

    pub(crate) fn forget_stamps(&mut self) {
        self.stamps = SenderClock::default();
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn count(&mut self) -> u64 {
        self.unacknowledged += 1;
        self.unacknowledged
    }

    pub(crate) fn is_new_gap(&mut self, at: u64) -> bool {
        self.gap_reported_at.replace(at) != Some(at)
    }

    pub(crate) fn hasten(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    pub(crate) fn make_ready(&mut self) -> bool {
        !std::mem::replace(&mut self.ready, true)
    }

    pub(crate) fn on_timeout(&mut self, now: Instant) {
        if self.due.take_if(|due| *due <= now).is_some() {
            self.ready = true;
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready
    }

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
