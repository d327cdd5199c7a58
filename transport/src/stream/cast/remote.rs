//! State of a host that acknowledges a cast to this one: its cursor, what it lacks, and its round
//! trip.

use super::repairs::Outstanding;
use crate::arq::bits;
use crate::arq::echo::{Behind, Echo};
use crate::arq::loss_detection::LossDetection;
use crate::arq::rtt::Rtt;
use crate::arq::stamp::Stamp;
use crate::feed::{Feed, ReaderId};
use crate::stream::readers::AckFrom;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Ack, AckBody, Peer, Rank};
use std::time::Duration;

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
    /// Holes of the newest acknowledgement, so that a repair already overtaken by it is not sent.
    holes: Vec<u8>,
    pub(super) outstanding: Outstanding,
    block_bits: u8,
    /// False from a graft until the first acknowledgement reports its cursor.
    pub(super) synced: bool,
}

impl Remote {
    /// Creates a reader in whose place the feed keeps whole blocks of `block_frames`, a power of two.
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

    /// Makes it a reader that acknowledged to another host until now and has given credit up to
    /// `limit`. Everything still in the feed is kept until it reports its cursor.
    pub(super) fn grafted(self, limit: u64) -> Remote {
        Remote { synced: false, limit, ..self }
    }

    pub(super) fn rank(&self) -> Rank {
        self.peer.rank
    }

    pub(super) fn rtt(&self) -> &Rtt {
        self.echo.rtt()
    }

    pub(super) fn timeout(&self, prompt: bool, tries: u32) -> Duration {
        if prompt { self.rtt().prompt_timeout(tries) } else { self.rtt().timeout(tries) }
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
            (self.cursor, self.below, self.limit, self.consumed) = (tail, tail, ack.body.limit.max(tail), 0);
            self.covered = tail;
            (self.synced, self.outstanding) = (false, Outstanding::default());
        }
        judged
    }

    pub(super) fn is_behind(&self, ack: &Ack<'_>) -> bool {
        self.synced && ack.cursor < self.cursor
    }

    /// Whether an acknowledgement reports more than is known. Higher frames count too: a repair
    /// parent draws no stamps for the root's frames, so its echo shows none of them.
    pub(super) fn is_more(&self, ack: &Ack<'_>) -> bool {
        let AckBody { limit, below, consumed, .. } = ack.body;
        let stands_further = self.cursor < ack.cursor || self.covered < ack.covered() || self.below < below;
        !self.synced || stands_further || self.limit < limit || self.consumed < consumed
    }

    pub(super) fn from(&self, feed: &Feed) -> u64 {
        self.cursor.max(feed.tail())
    }

    pub(super) fn known(&self, feed: &Feed) -> AckFrom {
        AckFrom::known(self.rank(), self.cursor, self.limit, feed.tail())
    }

    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, feed: &mut Feed) -> Option<Duration> {
        if !self.synced && ack.cursor < self.cursor {
            // The host is behind every reader known here, and so may its credit be.
            self.limit = ack.body.limit;
        }
        self.synced = true;
        self.cursor = ack.cursor;
        // Whatever held for every host behind it still holds: neither a late acknowledgement nor a
        // graft there takes anything back.
        self.below = if planted!("late-below") { ack.body.below } else { self.below.max(ack.body.below) };
        self.limit = self.limit.max(ack.body.limit);
        self.consumed = self.consumed.max(ack.body.consumed);
        self.covered = self.covered.max(ack.covered());
        self.holes.clear();
        self.holes.reserve_exact(ack.bitmap.len());
        self.holes.extend_from_slice(ack.bitmap);
        self.follow(feed);
        self.outstanding.settle(ack);
        self.echo.take(now, ack)
    }

    /// Returns the tolerance for a frame that reached both hosts from a third, `otherwise` without
    /// evidence.
    pub(super) fn tolerance_from_elsewhere(&self, otherwise: Duration) -> Duration {
        self.echo.disorder().max(otherwise)
    }

    pub(super) fn evidence(&self, tolerance: Duration, covered: u64) -> LossDetection {
        LossDetection { echo: self.echo.newest(), tolerance, covered }
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
        !bits::get(&self.holes, sequence - self.cursor - 1)
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
