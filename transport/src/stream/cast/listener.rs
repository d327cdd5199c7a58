//! What the root of a cast knows about one receiver that acknowledges to it.

use super::pace::{LossReport, Pace, PacedRound};
use super::remote::Remote;
use crate::feed::Feed;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Ack, Peer};
use std::time::Duration;

/// So many acknowledgements in a row must show a listener to be the slower one: a single loss makes anybody late once.
const IN_A_ROW: u8 = 3;

/// One receiver of a cast: a reader of the root's feed, and how much it loses.
#[derive(Clone, Debug)]
pub(super) struct Listener {
    remote: Remote,
    /// One past the highest frame whose loss has been counted, so that each counts once.
    counted: u64,
    /// One past the highest frame it is known to have lost.
    owed: u64,
    /// How many times in a row it has proved slower than the designated one.
    slower: u8,
    /// The round in which losses are counted for pacing.
    round: PacedRound,
    /// Times that a frame was lost on its way to it.
    lost: u64,
}

impl Listener {
    /// A listener at the stream's beginning.
    pub(super) fn new(peer: Peer, feed: &mut Feed, tuning: &Tuning) -> Listener {
        Listener::of(Remote::new(peer, feed, tuning))
    }

    /// One that has given credit up to `limit`, to another host.
    pub(super) fn graft(peer: Peer, limit: u64, feed: &mut Feed, tuning: &Tuning) -> Listener {
        Listener::of(Remote::graft(peer, limit, feed, tuning))
    }

    fn of(remote: Remote) -> Listener {
        Listener { counted: remote.cursor(), owed: 0, slower: 0, remote, round: PacedRound::default(), lost: 0 }
    }

    /// The same, with whole blocks of so many frames kept for it.
    pub(super) fn in_blocks(self, block_frames: u64) -> Listener {
        Listener { remote: self.remote.in_blocks(block_frames), ..self }
    }

    /// Where it stands.
    pub(super) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Where it stands.
    pub(super) fn remote_mut(&mut self) -> &mut Remote {
        &mut self.remote
    }

    /// Times that a frame was lost on its way to it, as far as is known.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether it has all that it is known to have lost.
    pub(super) fn is_made_whole(&self) -> bool {
        self.remote.cursor() >= self.owed
    }

    /// One past the last frame that may be sent while nothing more is heard of it, under a `window` of so many frames.
    pub(super) fn end(&self, window: u64) -> u64 {
        self.remote.limit().min(self.remote.cursor().saturating_add(window))
    }

    /// Whether it has not acknowledged everything up to `next`, or its application has not consumed `awaited`.
    pub(super) fn lags(&self, next: u64, awaited: u64) -> bool {
        self.remote.cursor() < next || self.remote.consumed() < awaited
    }

    /// Queues a repair for it; false if it is owed too many already.
    pub(super) fn lose(&mut self, sequence: u64) -> bool {
        self.owed = self.owed.max(sequence + 1);
        self.remote.outstanding_mut().queue(sequence)
    }

    /// Takes a valid acknowledgement that is not behind the cursor; if its echo is news, the time since the last such
    /// one.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, feed: &mut Feed) -> Option<Duration> {
        self.remote.on_ack(now, ack, feed)
    }

    /// Counts the frames `lost` anew, and those of them whose loss says something about the present pace, and lets it
    /// be judged.
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

    /// Whether it has proved slower than the designated one, now that it was found to be or not; it begins anew then.
    pub(super) fn proves_slower(&mut self, slower: bool) -> bool {
        self.slower = if slower { self.slower + 1 } else { 0 };
        let proves = self.slower >= IN_A_ROW;
        if proves {
            self.slower = 0;
        }
        proves
    }
}
