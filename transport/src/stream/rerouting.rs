//! Changes of a stream's way from some frame on: a cast that continues as a tree where switches
//! drop broadcasts, or a receiver that gets its own stream. The feed and its contents stay.

use super::intake::Intake;
use super::{Outlet, Stream, readers_of};
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Rank, StreamId};

impl Stream {
    /// Stops sending new frames and repairs losses by unicast, until [`reroute`](Stream::reroute)
    /// gives new readers.
    pub fn retire(&mut self) {
        self.readers.retire();
    }

    /// Whether every reader, and every host behind it, has received everything sent.
    pub fn is_level(&self) -> bool {
        self.everywhere() == self.readers.sending(&self.boundaries).1.min(self.feed.head())
    }

    /// Returns one past the last frame that all readers and every host behind them have received.
    /// The feed may keep more.
    pub fn everywhere(&self) -> u64 {
        self.readers.everywhere(&self.feed)
    }

    /// Returns how often a frame of a cast was lost on its way to each listener, as far as is
    /// known.
    pub fn lost(&self) -> Vec<(Rank, u64)> {
        self.readers.lost()
    }

    /// Continues with the readers of `outlet` and other tuning. Everything in the feed is kept
    /// until each reader has reported its cursor; segments are counted anew. The feed's own
    /// settings in `tuning` are ignored.
    ///
    /// # Panics
    /// If [`Tuning::check`] finds a wrong number.
    pub fn reroute(&mut self, now: Instant, outlet: &Outlet, tuning: Tuning) {
        tuning.assert_valid();
        self.boundaries.set_segment(tuning.feed.segment_frames.min(self.feed.slots() / 4));
        self.tuning = tuning;
        let tail = self.feed.tail();
        // Until the new readers stand here nothing is freed.
        let held = self.feed.add_reader(tail).expect("the tail can always be read");
        self.cursors().into_iter().for_each(|(rank, _)| self.remove_reader(now, rank));
        self.readers = readers_of(&outlet.without_peers(), &mut self.feed, &self.tuning);
        for &peer in outlet.peers() {
            self.graft_child(now, peer);
        }
        self.feed.remove_reader(held);
        if let Some(intake) = &mut self.intake {
            *intake = Intake::new(self.identity, &self.tuning);
        }
    }

    /// Continues a receiver under another stream number, served alone by an
    /// [`origin_at`](Stream::origin_at). Feed, cursor and the application's position stay; its
    /// readers are removed.
    pub fn set_number(&mut self, now: Instant, number: StreamId) {
        self.identity.stream = number;
        self.cursors().into_iter().for_each(|(rank, _)| self.remove_reader(now, rank));
        self.tuning = self.tuning.alone();
        if let Some(intake) = &mut self.intake {
            *intake = Intake::new(self.identity, &self.tuning);
        }
    }
}
