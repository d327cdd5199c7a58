//! Who reads a stream's feed: what they have, what they have passed, and how they come and go.

use super::intake::Standing;
use super::lane::Lane;
use super::{Cast, Peer, Stream, Wards};
use crate::time::Instant;

impl Stream {
    /// A reader has moved, or this stream's turn among others may have come nearer: the parent may have to be told of room.
    pub fn on_progress(&mut self, now: Instant) {
        self.passed = self.passed.max(self.count_passed());
        let (standing, flushed) = (self.standing(), self.marks.reported_before(self.passed));
        if let Some(intake) = &mut self.intake {
            intake.on_progress(now, &self.feed, standing, flushed);
        }
    }

    /// Every application here and behind has passed the frames below this. It is certain to grow at the end of a message
    /// ([`Ending::Message`](super::Ending::Message)); in between it may lag.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    fn count_passed(&self) -> u64 {
        let here = self.local.map_or(self.feed.head(), |reader| self.feed.position(reader));
        let lanes = self.lanes.iter().map(Lane::passed);
        let others = self.cast.as_ref().map(Cast::passed).into_iter().chain(self.wards.as_ref().map(Wards::passed));
        lanes.chain(others).min().unwrap_or(u64::MAX).min(here)
    }

    /// What the parent is told beside this host's own cursor. Lanes answer for their children, wards for all behind them: a cast has
    /// no relay whose death could be survived by keeping less.
    pub(super) fn standing(&self) -> Standing {
        let head = self.feed.head();
        let lanes = self.lanes.iter().map(Lane::cursor).min().unwrap_or(u64::MAX);
        let (below, limit) = self.wards.as_ref().map_or((u64::MAX, u64::MAX), |wards| (wards.below(), wards.limit()));
        Standing { below: lanes.min(below).min(head), passed: self.passed.min(head), limit: self.feed.limit().min(limit).max(head) }
    }

    /// Frames that have arrived and wait for the local application.
    pub fn backlog_frames(&self) -> u64 {
        self.local.map_or(0, |reader| self.feed.head() - self.feed.position(reader))
    }

    /// Whether everything that has been pushed or received is acknowledged by every remote reader.
    pub fn is_settled(&self) -> bool {
        self.feed.is_complete() && self.remote_readers().all(|(_, cursor)| cursor == self.feed.head())
    }

    /// Every remote reader's rank and cursor.
    pub fn cursors(&self) -> Vec<(u16, u64)> {
        self.remote_readers().collect()
    }

    fn remote_readers(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let lanes = self.lanes.iter().map(|lane| (lane.rank, lane.cursor()));
        let wards = self.wards.iter().flat_map(Wards::cursors);
        lanes.chain(self.cast.iter().flat_map(Cast::cursors)).chain(wards)
    }

    /// Stops serving the reader `rank`: what only it needed is freed.
    pub fn remove_reader(&mut self, now: Instant, rank: u16) {
        if let Some(at) = self.lanes.iter().position(|lane| lane.rank == rank) {
            let lane = self.lanes.remove(at);
            self.feed.remove_reader(lane.reader());
            self.turns = (0..self.lanes.len()).collect();
        }
        if let Some(cast) = &mut self.cast {
            cast.remove(now, rank, &mut self.feed);
        }
        if let Some(wards) = &mut self.wards {
            wards.remove(rank, &mut self.feed);
        }
        self.on_progress(now);
    }

    /// Serves a child that another host served until now, in the way this host serves its others.
    pub fn graft_child(&mut self, now: Instant, child: Peer) {
        let (feed, tuning) = (&mut self.feed, &self.tuning);
        if let Some(cast) = &mut self.cast {
            cast.graft(now, child, feed, tuning);
        } else if let Some(wards) = &mut self.wards {
            wards.graft(now, child, feed, tuning);
        } else if self.lanes.iter().all(|lane| lane.rank != child.rank) {
            self.turns.push(self.lanes.len());
            self.lanes.push(Lane::graft(now, child.rank, child.mac, feed, tuning));
        }
    }

    /// Ranks that were grafted here and need frames which nobody keeps any more.
    pub fn take_orphans(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.orphans)
    }

    pub(super) fn name_orphan(&mut self, rank: u16) {
        if !self.orphans.contains(&rank) {
            self.orphans.push(rank);
        }
    }

    /// Ranks this host serves by lanes.
    pub fn children(&self) -> impl Iterator<Item = u16> + '_ {
        self.lanes.iter().map(|lane| lane.rank)
    }

    /// Takes frames from another parent from now on, or acknowledges to it.
    pub fn set_parent(&mut self, parent: Peer) {
        if self.parent != Some(parent) {
            self.parent = Some(parent);
            if let Some(intake) = &mut self.intake {
                intake.forget_parent();
            }
        }
    }
}
