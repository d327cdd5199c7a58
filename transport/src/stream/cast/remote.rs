//! State of one receiver at a broadcast's sender: acknowledged frames, missing frames, round-trip
//! time.

use crate::arq::echo::{Behind, Echo, NewEcho, Rtt};
use crate::arq::loss_detection::LossDetection;
use crate::arq::receipt;
use crate::arq::stamp::Stamp;
use crate::feed::{Feed, ReaderId};
use crate::stream::readers::AckFrom;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Ack, AckBody, Peer, Rank};
use std::time::Duration;

/// A remote reader, in whose place the feed keeps whole blocks of a power of two of frames. It has
/// the `holes` of the newest acknowledgement, so that a repair already overtaken by it is not sent.
/// After a graft it is not `synced` until the first acknowledgement reports its cursor.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    pub(super) peer: Peer,
    pub(super) reader: ReaderId,
    pub(super) cursor: u64,
    pub(super) below: u64,
    pub(super) limit: u64,
    pub(super) consumed: u64,
    covered: u64,
    pub(super) echo: Echo,
    holes: Vec<u8>,
    pub(super) outstanding: Outstanding,
    block_bits: u8,
    pub(super) synced: bool,
}

impl Remote {
    pub(super) fn new(peer: Peer, block_frames: u64, feed: &mut Feed, tuning: &Tuning) -> Remote {
        let tail = feed.tail();
        Remote {
            peer,
            reader: feed.add_reader(tail).expect("the tail can always be read"),
            cursor: tail,
            below: tail,
            limit: tail + tuning.window.start_frames,
            consumed: 0,
            covered: tail,
            echo: Echo::new(tuning),
            holes: Vec::new(),
            outstanding: Outstanding::default(),
            block_bits: block_frames.trailing_zeros() as u8,
            synced: true,
        }
    }

    /// Makes a reader of a host that acknowledged to another until now and has given credit up to
    /// `limit`. Everything still in the feed is kept until the host reports its cursor.
    pub(super) fn grafted(self, limit: u64) -> Remote {
        Remote {
            synced: false,
            limit,
            ..self
        }
    }

    pub(super) fn rank(&self) -> Rank {
        self.peer.rank
    }

    pub(super) fn rtt(&self) -> &Rtt {
        self.echo.rtt()
    }

    pub(super) fn timeout(&self, prompt: bool, tries: u32) -> Duration {
        if prompt {
            self.rtt().prompt_timeout(tries)
        } else {
            self.rtt().timeout(tries)
        }
    }

    pub(super) fn has_acknowledged_since(&self, stamp: Stamp) -> bool {
        !stamp.is_after(self.echo.newest())
    }

    /// Judges an acknowledgement behind the cursor. If it proves that the known cursor is wrong,
    /// the host is served as if just grafted, from what is still kept.
    pub(super) fn judge_behind(&mut self, ack: &Ack<'_>, feed: &mut Feed) -> Behind {
        let judged = self.echo.judge_behind(ack);
        if judged == Behind::Contradiction {
            feed.rewind(self.reader);
            let tail = feed.tail();
            (self.cursor, self.below, self.limit, self.consumed) =
                (tail, tail, ack.body.limit.max(tail), 0);
            self.covered = tail;
            (self.synced, self.outstanding) = (false, Outstanding::default());
        }
        judged
    }

    pub(super) fn is_behind(&self, ack: &Ack<'_>) -> bool {
        self.synced && ack.cursor < self.cursor
    }

    /// Whether an acknowledgement reports more than is known. Higher frames count, too: a repair
    /// parent draws no stamps for the root's frames, so its echo shows none of them.
    pub(super) fn is_more(&self, ack: &Ack<'_>) -> bool {
        let AckBody {
            limit,
            below,
            consumed,
            ..
        } = ack.body;
        let stands_further =
            self.cursor < ack.cursor || self.covered < ack.covered() || self.below < below;
        !self.synced || stands_further || self.limit < limit || self.consumed < consumed
    }

    pub(super) fn from(&self, feed: &Feed) -> u64 {
        self.cursor.max(feed.tail())
    }

    pub(super) fn known(&self, feed: &Feed) -> AckFrom {
        AckFrom::known(self.rank(), self.cursor, self.limit, feed.tail())
    }

    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        feed: &mut Feed,
    ) -> Option<NewEcho> {
        if !self.synced && ack.cursor < self.cursor {
            // The host is behind every reader known here, and so may its credit be.
            self.limit = ack.body.limit;
        }
        let brings_no_echo = !Stamp(ack.echo).is_after(self.echo.newest());
        let is_old = self.synced && brings_no_echo && ack.cursor == self.cursor;
        self.synced = true;
        self.cursor = ack.cursor;
        // Earlier reports for the hosts behind it still hold: neither a late acknowledgement nor a
        // graft there withdraws anything.
        self.below = if planted!("late-below") {
            ack.body.below
        } else {
            self.below.max(ack.body.below)
        };
        self.limit = self.limit.max(ack.body.limit);
        self.consumed = self.consumed.max(ack.body.consumed);
        self.covered = self.covered.max(ack.covered());
        self.note_holes(ack.bitmap, is_old);
        self.follow(feed);
        self.outstanding.settle(ack);
        self.echo.take(now, ack)
    }

    /// Notes which frames have arrived beyond the cursor. An acknowledgement that may be an old one
    /// takes nothing back: a host that hears only the root's frames echoes the same stamp for long.
    fn note_holes(&mut self, bitmap: &[u8], may_be_old: bool) {
        if !may_be_old {
            self.holes.clear();
        }
        let longer = bitmap.len().saturating_sub(self.holes.len());
        self.holes.reserve_exact(longer);
        self.holes.resize(self.holes.len() + longer, 0);
        self.holes
            .iter_mut()
            .zip(bitmap)
            .for_each(|(known, arrived)| *known |= arrived);
    }

    /// Returns the tolerance for a frame that reached both hosts from a third, `otherwise` without
    /// evidence.
    pub(super) fn tolerance_from_elsewhere(&self, otherwise: Duration) -> Duration {
        self.echo.disorder().max(otherwise)
    }

    pub(super) fn evidence(&self, tolerance: Duration, covered: u64) -> LossDetection {
        LossDetection {
            echo: self.echo.newest(),
            tolerance,
            covered,
        }
    }

    pub(super) fn follow(&self, feed: &mut Feed) {
        let below = self.below.min(feed.head());
        // Hosts behind it are repaired by frames, not by parity.
        let blocks = self.cursor.min(feed.head()) >> self.block_bits << self.block_bits;
        let done = feed.is_complete() && below == feed.head();
        let to = if done { below } else { below.min(blocks) };
        if to > feed.position(self.reader) {
            feed.advance(self.reader, to);
        }
    }

    pub(super) fn lacks(&self, sequence: u64) -> bool {
        if sequence <= self.cursor {
            return sequence == self.cursor;
        }
        !receipt::get(&self.holes, sequence - self.cursor - 1)
    }

    pub(super) fn has_reported(&self, sequence: u64) -> bool {
        sequence < self.covered
    }

    pub(super) fn awaits(&self, sequence: u64) -> bool {
        self.outstanding.get(sequence) == Some(Stamp::NONE)
    }

    pub(super) fn is_owed(&self, sequence: u64) -> bool {
        self.lacks(sequence) && self.awaits(sequence)
    }

    pub(super) fn retains(&self, feed: &Feed) -> bool {
        let behind = self.below.min(feed.head()) < self.cursor.min(feed.head());
        behind && feed.highest() >= feed.limit()
    }

    pub(super) fn repairs_bytes(&self) -> usize {
        self.holes.capacity() + self.outstanding.bytes()
    }
}

const MAX_PENDING_REPAIRS: usize = 128;

const ASKING: usize = 4;

#[derive(Clone, Copy, Debug)]
struct PendingRepair {
    sequence: u64,
    stamp: Stamp,
    before: Stamp,
}

impl PendingRepair {
    fn withdraw(&mut self) {
        if self.stamp != Stamp::NONE {
            (self.before, self.stamp) = (self.stamp, Stamp::NONE);
        }
    }
}

/// Repairs pending for a reader, at most `MAX_PENDING_REPAIRS`: its next acknowledgement lists the
/// other frames that it lacks. That is twice what a link carries in a round trip at 1 Gbit/s, and 2
/// KiB of memory. Each has the stamp of its last transmission to this reader alone; none while
/// queued.
#[derive(Clone, Debug, Default)]
pub(super) struct Outstanding {
    entries: Vec<PendingRepair>,
}

impl Outstanding {
    fn find(&self, sequence: u64) -> Result<usize, usize> {
        self.entries
            .binary_search_by_key(&sequence, |owed| owed.sequence)
    }

    pub(super) fn get(&self, sequence: u64) -> Option<Stamp> {
        self.find(sequence).ok().map(|at| self.entries[at].stamp)
    }

    pub(super) fn transmissions(&self, sequence: u64, cast_at: Stamp) -> (Stamp, Stamp) {
        let known = |stamp: Stamp, otherwise: Stamp| {
            if stamp == Stamp::NONE {
                otherwise
            } else {
                stamp
            }
        };
        let Ok(at) = self.find(sequence) else {
            return (cast_at, cast_at);
        };
        let before = known(self.entries[at].before, cast_at);
        (before, known(self.entries[at].stamp, before))
    }

    pub(super) fn queue(&mut self, sequence: u64) -> bool {
        match self.find(sequence) {
            Ok(at) => self.entries[at].withdraw(),
            Err(_) if self.entries.len() >= MAX_PENDING_REPAIRS => return false,
            Err(at) => self.entries.insert(
                at,
                PendingRepair {
                    sequence,
                    stamp: Stamp::NONE,
                    before: Stamp::NONE,
                },
            ),
        }
        true
    }

    pub(super) fn sent(&mut self, sequence: u64, stamp: Stamp) {
        if let Ok(at) = self.find(sequence) {
            self.entries[at].stamp = stamp;
        }
    }

    pub(super) fn remove(&mut self, sequence: u64) {
        if let Ok(at) = self.find(sequence) {
            self.entries.remove(at);
        }
    }

    pub(super) fn settle(&mut self, ack: &Ack<'_>) {
        if !self.entries.is_empty() {
            self.entries.retain(|owed| !ack.has(owed.sequence));
        }
    }

    pub(super) fn queued(&self) -> impl Iterator<Item = u64> + '_ {
        self.entries
            .iter()
            .filter(|owed| owed.stamp == Stamp::NONE)
            .map(|owed| owed.sequence)
    }

    /// Whether hardly any room is left, so that only an acknowledgement helps. Several frames
    /// request it, as each may be lost.
    pub(super) fn is_used_up(&self) -> bool {
        self.entries.len() >= MAX_PENDING_REPAIRS && self.queued().nth(ASKING).is_none()
    }

    pub(super) fn is_sent(&self) -> bool {
        self.entries.iter().any(|owed| owed.stamp != Stamp::NONE)
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<PendingRepair>()
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
        assert_eq!(
            (outstanding.get(3), outstanding.get(4), outstanding.get(7)),
            (Some(Stamp(20)), None, Some(Stamp::NONE))
        );
        assert!(
            (100..100 + MAX_PENDING_REPAIRS as u64 - 2).all(|sequence| outstanding.queue(sequence))
        );
        assert!(
            !outstanding.queue(99) && outstanding.queue(3),
            "no room for another, but for one that is known"
        );
        assert!(outstanding.bytes() <= MAX_PENDING_REPAIRS * 16);
    }
}
