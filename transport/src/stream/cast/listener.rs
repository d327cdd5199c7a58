//! The cast root's state for one receiver that acknowledges to it.

use super::pace::{LossReport, Pace, PacedRound};
use super::remote::Remote;
use crate::feed::Feed;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Ack, Peer};
use std::time::Duration;

/// Consecutive acknowledgements that must show a listener to be slower than the acker: a single
/// loss delays any listener once.
const IN_A_ROW: u8 = 3;

#[derive(Clone, Debug)]
pub(super) struct Listener {
    remote: Remote,
    /// One past the highest frame whose loss has been counted, so that each counts once.
    counted: u64,
    owed: u64,
    slower: u8,
    round: PacedRound,
    lost: u64,
}

impl Listener {
    pub(super) fn new(peer: Peer, feed: &mut Feed, tuning: &Tuning) -> Listener {
        Listener::of(Remote::new(peer, feed, tuning))
    }

    pub(super) fn graft(peer: Peer, limit: u64, feed: &mut Feed, tuning: &Tuning) -> Listener {
        Listener::of(Remote::graft(peer, limit, feed, tuning))
    }

    fn of(remote: Remote) -> Listener {
        Listener { counted: remote.cursor(), owed: 0, slower: 0, remote, round: PacedRound::default(), lost: 0 }
    }

    pub(super) fn in_blocks(self, block_frames: u64) -> Listener {
        Listener { remote: self.remote.in_blocks(block_frames), ..self }
    }

    pub(super) fn remote(&self) -> &Remote {
        &self.remote
    }

    pub(super) fn remote_mut(&mut self) -> &mut Remote {
        &mut self.remote
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    pub(super) fn is_made_whole(&self) -> bool {
        self.remote.cursor() >= self.owed
    }

    pub(super) fn end(&self, window: u64) -> u64 {
        self.remote.limit().min(self.remote.cursor().saturating_add(window))
    }

    pub(super) fn lags(&self, next: u64, awaited: u64) -> bool {
        self.remote.cursor() < next || self.remote.consumed() < awaited
    }

    pub(super) fn lose(&mut self, sequence: u64) -> bool {
        self.owed = self.owed.max(sequence + 1);
        self.remote.outstanding_mut().queue(sequence)
    }

    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, feed: &mut Feed) -> Option<Duration> {
        self.remote.on_ack(now, ack, feed)
    }

    pub(super) fn on_losses(&mut self, lost: &[u64], ack: &Ack<'_>, since_last: Duration, pace: &mut Pace, next: u64) {
        self.lost += lost.len() as u64;
        let mut count = 0;
        for &sequence in lost {
            if sequence >= self.counted.max(pace.from()) {
                count += 1;
                self.counted = sequence + 1;
            }
        }
        let (known, arrived) = (self.counted.max(ack.covered()), ack.cursor + ack.arrived_beyond());
        pace.on_ack(&mut self.round, LossReport { known, arrived, lost: count, since_last }, next);
    }

    pub(super) fn proves_slower(&mut self, slower: bool) -> bool {
        self.slower = if slower { self.slower + 1 } else { 0 };
        let proves = self.slower >= IN_A_ROW;
        if proves {
            self.slower = 0;
        }
        proves
    }
}
