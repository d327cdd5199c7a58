//! Which receiver of a cast acknowledges for all that the cast is moving: the slowest, whom the others never wait for.

use super::listener::Listener;
use crate::wire::Rank;
use std::time::Duration;

/// Round trips that differ by less are alike.
const ROUND_TRIP_MARGIN: Duration = Duration::from_micros(500);

/// The choice of the designated receiver at the root.
#[derive(Clone, Debug)]
pub(super) struct Designation {
    /// The present one; it needs not be told that it is the first at the beginning.
    rank: Rank,
    /// Those who are to hear of it, each by a heartbeat of its own.
    untold: Vec<Rank>,
    /// Another must be so many frames behind to take its place, so that equals do not take turns.
    margin_frames: u64,
}

impl Designation {
    /// Designates the first of the listeners.
    pub(super) fn new(listeners: &[Listener], slots: u64) -> Option<Designation> {
        let rank = listeners.first()?.remote().rank();
        Some(Designation { rank, untold: Vec::new(), margin_frames: slots / 8 })
    }

    /// The present one.
    pub(super) fn rank(&self) -> Rank {
        self.rank
    }

    /// The next one to be told by a heartbeat.
    pub(super) fn next_untold(&mut self) -> Option<Rank> {
        self.untold.pop()
    }

    /// The listener at `at` has acknowledged `newly` frames: only then what is known of it is as fresh as what is known
    /// of the designated one, and can be compared.
    pub(super) fn on_ack(&mut self, listeners: &mut [Listener], at: usize, newly: u64) {
        let rank = listeners[at].remote().rank();
        if rank == self.rank {
            // The designated one acknowledges far more often: this one does not know yet that it is designated.
            if newly > self.margin_frames {
                self.tell(rank);
            }
            return;
        }
        let present = listeners.iter().find(|listener| listener.remote().rank() == self.rank);
        let slower = present.is_some_and(|present| self.is_slower(&listeners[at], present));
        if listeners[at].proves_slower(slower) {
            let before = std::mem::replace(&mut self.rank, rank);
            log::debug!("rank {rank} acknowledges for all, in the place of rank {before}");
            self.tell(before);
            self.tell(rank);
        }
    }

    /// The present one may have gone: then the slowest that is left takes its place.
    pub(super) fn on_removed(&mut self, listeners: &[Listener], gone: Rank) {
        if gone != self.rank {
            return;
        }
        let slowest = listeners.iter().min_by_key(|listener| (listener.remote().limit(), listener.remote().cursor()));
        if let Some(slowest) = slowest {
            self.rank = slowest.remote().rank();
            self.tell(self.rank);
        }
    }

    /// By credit, then by cursor, then by round trip.
    fn is_slower(&self, candidate: &Listener, present: &Listener) -> bool {
        let (candidate, present) = (candidate.remote(), present.remote());
        let behind = |theirs: u64, ours: u64| theirs + self.margin_frames < ours;
        let ahead = behind(present.limit(), candidate.limit()) || behind(present.cursor(), candidate.cursor());
        let farther = || {
            let round_trips = candidate.rtt().smoothed().zip(present.rtt().smoothed());
            round_trips.is_some_and(|(theirs, ours)| theirs > ours * 2 + ROUND_TRIP_MARGIN)
        };
        behind(candidate.limit(), present.limit())
            || (!behind(present.limit(), candidate.limit()) && behind(candidate.cursor(), present.cursor()))
            || (!ahead && farther())
    }

    fn tell(&mut self, rank: Rank) {
        if !self.untold.contains(&rank) {
            self.untold.push(rank);
        }
    }
}
