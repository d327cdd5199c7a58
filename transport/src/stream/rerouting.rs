//! A stream that is carried in another way from some frame on: a cast that goes on as a tree, where the network throws
//! away what is sent to all; a receiver that is served alone. The feed stays, and whatever anybody needs in it.

use super::intake::Intake;
use super::{Outlet, Stream, readers_of};
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Rank, StreamId};

impl Stream {
    /// Sends nothing new any more, and what a reader lacks to that reader alone, until
    /// [`reroute`](Stream::reroute) says how to go on.
    pub fn retire(&mut self) {
        self.readers.retire();
    }

    /// Whether nobody needs anything of what has been sent: everybody has got it, and whoever is behind them.
    pub fn is_level(&self) -> bool {
        self.everywhere() == self.readers.sending(&self.boundaries).1.min(self.feed.head())
    }

    /// One past the last frame that all readers have got, and everybody behind them. The feed may keep more of it.
    pub fn everywhere(&self) -> u64 {
        self.readers.everywhere(&self.feed)
    }

    /// How often a frame of a cast was lost on its way to each listener, as far as is known.
    pub fn lost(&self) -> Vec<(Rank, u64)> {
        self.readers.lost()
    }

    /// Goes on to other readers, with other numbers: what is here is kept for them until each has said where it stands.
    /// Segments are counted anew. Of the numbers for the feed none counts: it stays as it is.
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

    /// Goes on under another number: a receiver whose parent, an [`origin_at`](Stream::origin_at), serves it alone from
    /// now on. Feed, cursor and the local application's place stay; its readers are gone.
    pub fn set_number(&mut self, now: Instant, number: StreamId) {
        self.identity.stream = number;
        self.cursors().into_iter().for_each(|(rank, _)| self.remove_reader(now, rank));
        self.tuning = self.tuning.alone();
        if let Some(intake) = &mut self.intake {
            *intake = Intake::new(self.identity, &self.tuning);
        }
    }
}
