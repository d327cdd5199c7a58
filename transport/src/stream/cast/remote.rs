//! What a host knows of another that acknowledges a cast to it: where it stands, what it lacks, and how far away it is.

use super::repairs::Outstanding;
use crate::arq::bits;
use crate::arq::echo::{Behind, Echo};
use crate::arq::evidence::Evidence;
use crate::arq::rtt::Rtt;
use crate::arq::stamp::Stamp;
use crate::feed::{Feed, ReaderId};
use crate::stream::outgoing::AckFrom;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Ack, AckBody, Peer, Rank};
use std::time::Duration;

/// One reader of the feed that gets its new frames by cast.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    peer: Peer,
    reader: ReaderId,
    /// All frames below this have arrived there.
    cursor: u64,
    /// All frames below this have arrived there and at everybody behind it.
    below: u64,
    /// Its credit, and that of everybody behind it.
    limit: u64,
    /// What every application there and behind it has consumed.
    consumed: u64,
    /// One past the highest frame that is known to have arrived there.
    covered: u64,
    echo: Echo,
    /// The holes of the newest acknowledgement, so that a repair overtaken by an acknowledgement is not sent.
    holes: Vec<u8>,
    outstanding: Outstanding,
    /// The reader keeps whole blocks of frames: the binary logarithm of how many.
    block_bits: u8,
    /// False from a graft until the first acknowledgement says where it stands.
    synced: bool,
}

impl Remote {
    /// A reader at the stream's beginning.
    pub(super) fn new(peer: Peer, feed: &mut Feed, tuning: &Tuning) -> Remote {
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
            block_bits: 0,
            synced: true,
        }
    }

    /// One that acknowledged to another host until now: everything still here is kept until it says where it stands. It
    /// is known to have given credit up to `limit`.
    pub(super) fn graft(peer: Peer, limit: u64, feed: &mut Feed, tuning: &Tuning) -> Remote {
        Remote { synced: false, limit, ..Remote::new(peer, feed, tuning) }
    }

    /// The same, but everything from the beginning of a block on is kept until the block is whole there.
    pub(super) fn in_blocks(self, block_frames: u64) -> Remote {
        Remote { block_bits: block_frames.trailing_zeros() as u8, ..self }
    }

    /// Who it is.
    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    /// Its rank.
    pub(super) fn rank(&self) -> Rank {
        self.peer.rank
    }

    /// The feed's reader that stands for it and everybody behind it.
    pub(super) fn reader(&self) -> ReaderId {
        self.reader
    }

    /// All frames below this have arrived there.
    pub(super) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// All frames below this have arrived there and at everybody behind it.
    pub(super) fn below(&self) -> u64 {
        self.below
    }

    /// Its credit, and that of everybody behind it.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// What every application there and behind it has consumed.
    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// How far away it is.
    pub(super) fn rtt(&self) -> &Rtt {
        self.echo.rtt()
    }

    /// How long to wait for its answer, `prompt` or held back, after so many fruitless waits.
    pub(super) fn timeout(&self, prompt: bool, tries: u32) -> Duration {
        if prompt { self.rtt().prompt_timeout(tries) } else { self.rtt().timeout(tries) }
    }

    /// Whether it has heard what was sent under this stamp, or something later.
    pub(super) fn has_heard(&self, stamp: Stamp) -> bool {
        !stamp.is_after(self.echo.newest())
    }

    /// The repairs it is owed.
    pub(super) fn outstanding(&self) -> &Outstanding {
        &self.outstanding
    }

    /// The repairs it is owed.
    pub(super) fn outstanding_mut(&mut self) -> &mut Outstanding {
        &mut self.outstanding
    }

    /// Whether it has said where it stands since it was grafted.
    pub(super) fn is_synced(&self) -> bool {
        self.synced
    }

    /// Judges an acknowledgement that is behind the cursor. If it proves that the reader does not stand there, it is
    /// served as if it had been grafted anew, from what is still kept.
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

    /// Whether an acknowledgement is behind the cursor. The first word of one that was grafted never is.
    pub(super) fn is_behind(&self, ack: &Ack<'_>) -> bool {
        self.synced && ack.cursor < self.cursor
    }

    /// Whether an acknowledgement says more than is known. What the root has cast carries no stamp of a receiver that
    /// is acknowledged to: there a higher frame is news by itself.
    pub(super) fn is_more(&self, ack: &Ack<'_>) -> bool {
        let AckBody { limit, below, consumed, .. } = ack.body;
        let stands_further = self.cursor < ack.cursor || self.covered < ack.covered() || self.below < below;
        !self.synced || stands_further || self.limit < limit || self.consumed < consumed
    }

    /// The first frame that it can be sent from here: its cursor, unless what it needs is gone.
    pub(super) fn from(&self, feed: &Feed) -> u64 {
        self.cursor.max(feed.tail())
    }

    /// What it is known to be: who needs frames that are gone, or not.
    pub(super) fn known(&self, feed: &Feed) -> AckFrom {
        AckFrom::known(self.rank(), self.cursor, self.limit, feed.tail())
    }

    /// Takes a valid acknowledgement that is not old; if its echo is news, the time since the last such one.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, feed: &mut Feed) -> Option<Duration> {
        if !self.synced && ack.cursor < self.cursor {
            // It is further behind than all who were heard here: so may its credit be.
            self.limit = ack.body.limit;
        }
        self.synced = true;
        self.cursor = ack.cursor;
        // What was once true of all behind it stays true: an older word that comes late, or a graft there, takes
        // nothing back.
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

    /// How much earlier than another that has arrived a frame must have been sent to be lost, and not just overtaken.
    pub(super) fn tolerance(&self) -> Duration {
        self.echo.tolerance()
    }

    /// The same of a frame that came here and there from elsewhere, of which `otherwise` holds without evidence.
    pub(super) fn tolerance_from_elsewhere(&self, otherwise: Duration) -> Duration {
        self.echo.disorder().max(otherwise)
    }

    /// What its echoes have shown.
    pub(super) fn echo_mut(&mut self) -> &mut Echo {
        &mut self.echo
    }

    /// What its newest echo proves, by an acknowledgement that speaks about all frames below `covered`.
    pub(super) fn evidence(&self, tolerance: Duration, covered: u64) -> Evidence {
        Evidence { echo: self.echo.newest(), tolerance, covered }
    }

    /// Lets the reader stand where nothing below is needed any more, as far as this host has got itself.
    pub(super) fn follow(&self, feed: &mut Feed) {
        let below = self.below.min(feed.head());
        // Those behind it are sent frames, and no parity.
        let blocks = self.cursor.min(feed.head()) >> self.block_bits << self.block_bits;
        let done = feed.is_complete() && below == feed.head();
        let to = if done { below } else { below.min(blocks) };
        if to > feed.position(self.reader) {
            feed.advance(self.reader, to);
        }
    }

    /// Whether it still needs frame `sequence`, as far as its newest acknowledgement says.
    pub(super) fn lacks(&self, sequence: u64) -> bool {
        if sequence <= self.cursor {
            return sequence == self.cursor;
        }
        !bits::get(&self.holes, sequence - self.cursor - 1)
    }

    /// Whether its acknowledgements speak about frame `sequence`.
    pub(super) fn has_told_of(&self, sequence: u64) -> bool {
        sequence < self.covered
    }

    /// Whether frame `sequence` is queued to be sent to it again.
    pub(super) fn awaits(&self, sequence: u64) -> bool {
        self.outstanding.get(sequence) == Some(Stamp::NONE)
    }

    /// Whether it still needs frame `sequence` and waits for it to be sent to it alone.
    pub(super) fn is_owed(&self, sequence: u64) -> bool {
        self.lacks(sequence) && self.awaits(sequence)
    }

    /// Whether the feed is full of frames that are kept only for those behind it.
    pub(super) fn retains(&self, feed: &Feed) -> bool {
        let behind = self.below.min(feed.head()) < self.cursor.min(feed.head());
        behind && feed.highest() >= feed.limit()
    }

    /// Bytes that its holes and repairs take, beside itself.
    pub(super) fn repairs_bytes(&self) -> usize {
        self.holes.capacity() + self.outstanding.bytes()
    }
}
