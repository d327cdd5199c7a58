//! Choice of the acker of a cast: its slowest receiver, which acknowledges for all and which the
//! others never wait for.

use super::listeners::Listener;
use crate::wire::Rank;
use std::time::Duration;

const ROUND_TRIP_MARGIN: Duration = Duration::from_micros(500);

#[derive(Clone, Debug)]
pub(super) struct AckerChoice {
    pub(super) rank: Rank,
    untold: Vec<Rank>,
    /// Frames that a candidate must be behind the acker to replace it, so that equals do not
    /// alternate.
    margin_frames: u64,
}

impl AckerChoice {
    pub(super) fn new(listeners: &[Listener], slots: u64) -> Option<AckerChoice> {
        let rank = listeners.first()?.remote.rank();
        Some(AckerChoice { rank, untold: Vec::new(), margin_frames: slots / 8 })
    }

    pub(super) fn next_unannounced(&mut self) -> Option<Rank> {
        self.untold.pop()
    }

    /// Compares the listener at `at` with the acker if it has just acknowledged `newly` frames:
    /// only then both positions are equally fresh.
    pub(super) fn on_ack(&mut self, listeners: &mut [Listener], at: usize, newly: u64) {
        let rank = listeners[at].remote.rank();
        if rank == self.rank {
            // The acker acknowledges far more often: after a jump this large the listener does not
            // know yet that it is the acker.
            if newly > self.margin_frames {
                self.tell(rank);
            }
            return;
        }
        let present = listeners.iter().find(|listener| listener.remote.rank() == self.rank);
        let slower = present.is_some_and(|present| self.is_slower(&listeners[at], present));
        if listeners[at].proves_slower(slower) {
            let before = std::mem::replace(&mut self.rank, rank);
            log::debug!("rank {rank} acknowledges for all, in the place of rank {before}");
            self.tell(before);
            self.tell(rank);
        }
    }

    /// Replaces the acker by the slowest listener if it is `gone`.
    pub(super) fn on_removed(&mut self, listeners: &[Listener], gone: Rank) {
        if gone != self.rank {
            return;
        }
        let slowest = listeners.iter().min_by_key(|listener| (listener.remote.limit, listener.remote.cursor));
        if let Some(slowest) = slowest {
            self.rank = slowest.remote.rank();
            self.tell(self.rank);
        }
    }

    fn is_slower(&self, candidate: &Listener, present: &Listener) -> bool {
        let (candidate, present) = (&candidate.remote, &present.remote);
        let behind = |theirs: u64, ours: u64| theirs + self.margin_frames < ours;
        let ahead = behind(present.limit, candidate.limit) || behind(present.cursor, candidate.cursor);
        let farther = || {
            let round_trips = candidate.rtt().smoothed().zip(present.rtt().smoothed());
            round_trips.is_some_and(|(theirs, ours)| theirs > ours * 2 + ROUND_TRIP_MARGIN)
        };
        behind(candidate.limit, present.limit)
            || (!behind(present.limit, candidate.limit) && behind(candidate.cursor, present.cursor))
            || (!ahead && farther())
    }

    fn tell(&mut self, rank: Rank) {
        if !self.untold.contains(&rank) {
            self.untold.push(rank);
        }
    }
}
