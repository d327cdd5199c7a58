//! Wait-for graph of the ranks, and their progress: reported in keepalives, and used to find the
//! culprit when a call stalls.

use super::agreement::Agreement;
use crate::communicator::config::period;
use crate::communicator::failure::Blame;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default)]
struct ReportedWait {
    waits_for: Option<Rank>,
    moved: u16,
}

#[derive(Clone, Debug)]
pub(super) struct Waits {
    own: Rank,
    /// Rank that this one waits for in the call in progress. It is determined again only at
    /// `look_at`: among thousands of ranks that takes time.
    waits_for: Option<Rank>,
    look_at: Instant,
    looks_every: Duration,
    told: Vec<ReportedWait>,
    others_moved: u64,
}

impl Waits {
    pub(super) fn new(now: Instant, own: Rank, size: u16) -> Waits {
        let told = vec![ReportedWait::default(); usize::from(size)];
        Waits { own, waits_for: None, look_at: now, looks_every: period(size) / 2, told, others_moved: 0 }
    }

    pub(super) fn begin(&mut self, now: Instant) {
        (self.waits_for, self.look_at) = (None, now + self.looks_every);
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.look_at <= now
    }

    pub(super) fn waits_for(&self) -> Option<Rank> {
        self.waits_for
    }

    pub(super) fn set(&mut self, now: Instant, waits_for: Option<Rank>) {
        self.waits_for = waits_for.filter(|&rank| rank != self.own);
        self.look_at = now + self.looks_every;
    }

    pub(super) fn others_moved(&self) -> u64 {
        self.others_moved
    }

    pub(super) fn on_sign(&mut self, rank: Rank, waits_for: Option<Rank>, moved: u16) {
        let told = &mut self.told[rank.index()];
        self.others_moved += u64::from(told.moved != moved);
        *told = ReportedWait { waits_for: waits_for.filter(|&other| other != rank), moved };
    }

    pub(super) fn blame(&self, agreement: &Agreement, number: u64) -> Option<Blame> {
        let call_of = |rank: Rank| if rank == self.own { number } else { agreement.newest_of(rank) };
        let Some(mut next) = self.waits_for else {
            return agreement.missing(number).first().map(|&rank| Blame::NotEntered { rank });
        };
        let mut path = vec![self.own];
        loop {
            let last = *path.last().expect("it begins with this rank");
            if let Some(from) = path.iter().position(|&rank| rank == next) {
                path.push(next);
                // In a cycle, the rank in the earliest call is the one not served.
                let hops = path[from..].windows(2).map(|hop| (hop[0], hop[1]));
                return hops.min_by_key(|&(rank, _)| call_of(rank)).map(|(one, other)| Blame::Between { one, other });
            }
            match self.told[next.index()].waits_for {
                Some(further) => {
                    path.push(next);
                    next = further;
                }
                None if !agreement.has_called(next, number) => return Some(Blame::NotEntered { rank: next }),
                None => return Some(Blame::TakesNothing { rank: next, from: last }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communicator::signature::{Operation, Signature};

    fn blame(number: u64, waits_for: u16, others: &[(u64, Option<u16>)]) -> Option<Blame> {
        let size = others.len() as u16 + 1;
        let (mut waits, mut agreement) = (Waits::new(Instant::START, Rank(0), size), Agreement::new(Rank(0), size));
        waits.set(Instant::START, Some(Rank(waits_for)));
        for (&(number, waits_for), rank) in others.iter().zip(1..) {
            waits.on_sign(Rank(rank), waits_for.map(Rank), 1);
            let signature = Signature { number, operation: Operation::Barrier, root: Rank(0), bytes: 0 };
            agreement.on_calls(Rank(rank), &[signature]);
        }
        waits.blame(&agreement, number)
    }

    #[test]
    fn the_culprit_is_found_along_the_line_of_those_who_wait() {
        let between = |one, other| Some(Blame::Between { one: Rank(one), other: Rank(other) });
        assert_eq!(blame(5, 1, &[(5, Some(2)), (4, None)]), Some(Blame::NotEntered { rank: Rank(2) }));
        assert_eq!(blame(5, 1, &[(5, Some(2)), (5, None)]), Some(Blame::TakesNothing { rank: Rank(2), from: Rank(1) }));
        assert_eq!(blame(5, 1, &[(5, Some(2)), (5, Some(1))]), between(1, 2));
        assert_eq!(blame(6, 3, &[(6, Some(0)), (6, Some(0)), (5, Some(2))]), between(3, 2), "in an earlier call");
    }
}
