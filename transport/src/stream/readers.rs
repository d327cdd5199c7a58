//! Remote readers of a stream's feed: one interface over lanes, cast and repair children.

use super::boundaries::Boundaries;
use super::memory::Memory;
use super::outgoing::{AckFrom, Departure};
use super::terms::Flight;
use crate::arq::stamp::{Stamp, Stamps};
use crate::feed::Feed;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Ack, Peer, Rank};
use std::fmt::Debug;

pub(super) trait Readers: Debug + Send + Sync {
    fn boxed(&self) -> Box<dyn Readers>;

    /// Takes the possible part of an acknowledgement; `newest` is the last stamp drawn here.
    fn on_ack(
        &mut self,
        now: Instant,
        from: Peer,
        ack: &Ack<'_>,
        newest: Stamp,
        feed: &mut Feed,
        boundaries: &Boundaries,
    ) -> AckFrom;

    /// Handles frame `sequence` that has arrived here; `late` if a later one had before.
    fn on_data(&mut self, _now: Instant, _sequence: u64, _late: bool, _feed: &mut Feed, _boundaries: &Boundaries) {}

    /// Handles a new message end, from which segments are counted.
    fn on_boundary(&mut self) {}

    fn on_timeout(&mut self, now: Instant, feed: &Feed);

    /// Returns when a reader is due for a heartbeat or a held-back frame.
    fn due(&self, now: Instant) -> Option<Instant>;

    /// Returns when the next frame may go, if pacing or the wait for other losers holds it back.
    fn held_until(&self, _now: Instant, _feed: &Feed, _boundaries: &Boundaries) -> Option<Instant> {
        None
    }

    /// Returns the next thing to send and its destination; the caller sends it under the stamp
    /// drawn.
    fn poll(&mut self, now: Instant, feed: &Feed, boundaries: &Boundaries, stamps: &mut Stamps) -> Option<Departure>;

    /// Adds a reader that another host served until now.
    fn graft(&mut self, now: Instant, peer: Peer, feed: &mut Feed, tuning: &Tuning);

    /// Removes a reader and frees what only it needed.
    fn remove(&mut self, now: Instant, rank: Rank, feed: &mut Feed);

    fn cursors(&self) -> Vec<(Rank, u64)>;

    /// Returns the flight of each reader that gets new frames from here.
    fn flights(&self) -> Vec<Flight> {
        Vec::new()
    }

    /// Returns the subtree cursor of all readers, as far as they answer for the hosts behind them.
    fn below(&self) -> u64 {
        u64::MAX
    }

    /// Returns the subtree cursor of all readers and every host behind them. The feed may keep more
    /// for them.
    fn everywhere(&self, feed: &Feed) -> u64 {
        feed.tail()
    }

    /// Returns the smallest credit of the readers that this host answers for, beside its own.
    fn limit(&self) -> u64 {
        u64::MAX
    }

    /// Returns the reader that holds up the stream: see
    /// [`Stream::held_up_by`](super::Stream::held_up_by).
    fn held_up_by(&self, feed: &Feed) -> Option<Rank>;

    fn turn_of(&self, _rank: Rank, _feed: &Feed) -> Option<u64> {
        None
    }

    /// Returns the reader for which most of the feed is kept.
    fn crowded_by(&self, feed: &Feed) -> Option<Rank> {
        self.held_up_by(feed)
    }

    /// Stops sending new frames; losses are repaired by unicast.
    fn retire(&mut self) {}

    /// Returns the losses on the way to each reader, where that says something about its path.
    fn lost(&self) -> Vec<(Rank, u64)> {
        Vec::new()
    }

    fn consumed(&self) -> u64;

    /// Whether everything below `head` has been sent for the first time.
    fn have_been_sent(&self, _head: u64) -> bool {
        true
    }

    /// Returns whether a child is in the middle of a segment, and the lowest frame not yet sent to
    /// every child.
    fn sending(&self, _boundaries: &Boundaries) -> (bool, u64) {
        (false, u64::MAX)
    }

    /// Whether a child is in the middle of a segment and waits for its acknowledgement to go on.
    fn is_pausing(&self, _feed: &Feed, _boundaries: &Boundaries) -> bool {
        false
    }

    fn memory(&self) -> Memory;
}

impl Clone for Box<dyn Readers> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}
