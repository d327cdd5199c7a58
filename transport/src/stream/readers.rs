//! Those who read a stream's feed over the network: in one of three ways, behind one face.

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

/// The remote readers of one stream at one host.
pub(super) trait Readers: Debug + Send + Sync {
    /// The same readers once more, where they stand.
    fn boxed(&self) -> Box<dyn Readers>;

    /// Takes an acknowledgement, as far as it can be true; `newest` is the last stamp drawn here.
    fn on_ack(
        &mut self,
        now: Instant,
        from: Peer,
        ack: &Ack<'_>,
        newest: Stamp,
        feed: &mut Feed,
        boundaries: &Boundaries,
    ) -> AckFrom;

    /// Frame `sequence` has arrived here; `late` if a later one had before it.
    fn on_data(&mut self, _now: Instant, _sequence: u64, _late: bool, _feed: &mut Feed, _boundaries: &Boundaries) {}

    /// A message ends somewhere: segments are counted from there.
    fn on_boundary(&mut self) {}

    /// Lets time pass.
    fn on_timeout(&mut self, now: Instant, feed: &Feed);

    /// When somebody is to be asked, or may be sent what was held back for it.
    fn due(&self, now: Instant) -> Option<Instant>;

    /// When the next frame may go, if pacing or the wait for other losers is what holds it back.
    fn held_until(&self, _now: Instant, _feed: &Feed, _boundaries: &Boundaries) -> Option<Instant> {
        None
    }

    /// What to send next and to whom, if anything; the caller sends it under the stamp drawn.
    fn poll(&mut self, now: Instant, feed: &Feed, boundaries: &Boundaries, stamps: &mut Stamps) -> Option<Departure>;

    /// Takes in a reader that another host served, or listened to, until now.
    fn graft(&mut self, now: Instant, peer: Peer, feed: &mut Feed, tuning: &Tuning);

    /// Takes a reader away, and what only it needed with it.
    fn remove(&mut self, now: Instant, rank: Rank, feed: &mut Feed);

    /// Every reader's rank and cursor.
    fn cursors(&self) -> Vec<(Rank, u64)>;

    /// What is on its way to each, if they get new frames from here.
    fn flights(&self) -> Vec<Flight> {
        Vec::new()
    }

    /// What has arrived at all of them, and at everybody behind them for whom they answer.
    fn below(&self) -> u64 {
        u64::MAX
    }

    /// What has arrived at all of them, and at everybody behind them. The feed may keep more for them.
    fn everywhere(&self, feed: &Feed) -> u64 {
        feed.tail()
    }

    /// The smallest credit that this host has to answer for, beside its own.
    fn limit(&self) -> u64 {
        u64::MAX
    }

    /// For whom the stream cannot go on, if it cannot: see [`Stream::held_up_by`](super::Stream::held_up_by).
    fn held_up_by(&self, feed: &Feed) -> Option<Rank>;

    /// See [`Stream::mute`](super::Stream::mute).
    fn mute(&self, _now: Instant, _feed: &Feed) -> Option<Rank> {
        None
    }

    /// See [`Stream::turn_of`](super::Stream::turn_of).
    fn turn_of(&self, _rank: Rank, _feed: &Feed) -> Option<u64> {
        None
    }

    /// For whom most of what is in the feed is kept.
    fn crowded_by(&self, feed: &Feed) -> Option<Rank> {
        self.held_up_by(feed)
    }

    /// Sends nothing new any more; what is lacking goes to each who lacks it.
    fn retire(&mut self) {}

    /// How often a frame was lost on its way to each, where that says something of how they are reached.
    fn lost(&self) -> Vec<(Rank, u64)> {
        Vec::new()
    }

    /// What every application at and behind them has consumed.
    fn consumed(&self) -> u64;

    /// Whether everything below `head` has been sent for the first time.
    fn have_been_sent(&self, _head: u64) -> bool {
        true
    }

    /// Whether a child is in the middle of a segment, and the lowest frame that a child has not been sent yet.
    fn sending(&self, _boundaries: &Boundaries) -> (bool, u64) {
        (false, u64::MAX)
    }

    /// Whether a child is in the middle of a segment, which goes on as soon as it has acknowledged some of it.
    fn is_pausing(&self, _feed: &Feed, _boundaries: &Boundaries) -> bool {
        false
    }

    /// The bytes of stamps, readers and repairs.
    fn memory(&self) -> Memory;
}

impl Clone for Box<dyn Readers> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}
