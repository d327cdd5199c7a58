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

    fn on_ack(
        &mut self,
        now: Instant,
        from: Peer,
        ack: &Ack<'_>,
        newest: Stamp,
        feed: &mut Feed,
        boundaries: &Boundaries,
    ) -> AckFrom;

    fn on_data(&mut self, _now: Instant, _sequence: u64, _late: bool, _feed: &mut Feed, _boundaries: &Boundaries) {}

    fn on_boundary(&mut self) {}

    fn on_timeout(&mut self, now: Instant, feed: &Feed);

    fn due(&self, now: Instant) -> Option<Instant>;

    fn held_until(&self, _now: Instant, _feed: &Feed, _boundaries: &Boundaries) -> Option<Instant> {
        None
    }

    fn poll(&mut self, now: Instant, feed: &Feed, boundaries: &Boundaries, stamps: &mut Stamps) -> Option<Departure>;

    fn graft(&mut self, now: Instant, peer: Peer, feed: &mut Feed, tuning: &Tuning);

    fn remove(&mut self, now: Instant, rank: Rank, feed: &mut Feed);

    fn cursors(&self) -> Vec<(Rank, u64)>;

    fn flights(&self) -> Vec<Flight> {
        Vec::new()
    }

    /// Returns the lowest cursor of all readers and of the hosts behind them that they answer for.
    fn below(&self) -> u64 {
        u64::MAX
    }

    /// Returns the lowest cursor of all readers and of every host behind them. The feed may keep
    /// more for them.
    fn everywhere(&self, feed: &Feed) -> u64 {
        feed.tail()
    }

    /// Returns the smallest credit of the readers that acknowledge to this host but are sent new
    /// frames by another.
    fn limit(&self) -> u64 {
        u64::MAX
    }

    fn held_up_by(&self, feed: &Feed) -> Option<Rank>;

    /// See [`Stream::mute`](super::Stream::mute).
    fn mute(&self, _now: Instant, _feed: &Feed) -> Option<Rank> {
        None
    }

    fn turn_of(&self, _rank: Rank, _feed: &Feed) -> Option<u64> {
        None
    }

    fn crowded_by(&self, feed: &Feed) -> Option<Rank> {
        self.held_up_by(feed)
    }

    fn retire(&mut self) {}

    fn lost(&self) -> Vec<(Rank, u64)> {
        Vec::new()
    }

    fn consumed(&self) -> u64;

    fn have_been_sent(&self, _head: u64) -> bool {
        true
    }

    fn sending(&self, _boundaries: &Boundaries) -> (bool, u64) {
        (false, u64::MAX)
    }

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
