//! Record of which rank waits for which, from keepalives, to name the one that delays a stalled
//! call.

use super::agreement::Agreement;
use crate::communicator::config::period;
use crate::communicator::error::{Blame, Cause, Failure};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
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
        Waits {
            own,
            waits_for: None,
            look_at: now,
            looks_every: period(size) / 2,
            told,
            others_moved: 0,
        }
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
        *told = ReportedWait {
            waits_for: waits_for.filter(|&other| other != rank),
            moved,
        };
    }

    pub(super) fn blame(&self, agreement: &Agreement, number: u64) -> Option<Blame> {
        let call_of = |rank: Rank| {
            if rank == self.own {
                number
            } else {
                agreement.newest_of(rank)
            }
        };
        let Some(mut next) = self.waits_for else {
            return agreement
                .missing(number)
                .first()
                .map(|&rank| Blame::NotEntered { rank });
        };
        let mut path = vec![self.own];
        loop {
            let last = *path.last().expect("it begins with this rank");
            if let Some(from) = path.iter().position(|&rank| rank == next) {
                path.push(next);
                // In a cycle, the rank in the earliest call is the one not served.
                let hops = path[from..].windows(2).map(|hop| (hop[0], hop[1]));
                return hops
                    .min_by_key(|&(rank, _)| call_of(rank))
                    .map(|(one, other)| Blame::Between { one, other });
            }
            match self.told[next.index()].waits_for {
                Some(further) => {
                    path.push(next);
                    next = further;
                }
                None if !agreement.has_called(next, number) => {
                    return Some(Blame::NotEntered { rank: next });
                }
                None => {
                    return Some(Blame::TakesNothing {
                        rank: next,
                        from: last,
                    });
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum OutcomeState<T> {
    Awaited,
    Unwanted,
    Here(T),
}

#[derive(Clone, Debug)]
pub(super) struct Pending<I, T> {
    fates: BTreeMap<I, OutcomeState<T>>,
    unwanted: usize,
}

impl<I, T> Default for Pending<I, T> {
    fn default() -> Pending<I, T> {
        Pending {
            fates: BTreeMap::new(),
            unwanted: 0,
        }
    }
}

impl<I: Ord + Copy, T> Pending<I, T> {
    pub(super) fn wanted(&self) -> usize {
        self.fates.len() - self.unwanted
    }

    pub(super) fn are_awaited(&self) -> bool {
        self.fates
            .values()
            .any(|fate| matches!(fate, OutcomeState::Awaited))
    }

    pub(super) fn add(&mut self, id: I) {
        self.fates.insert(id, OutcomeState::Awaited);
    }

    pub(super) fn ignore(&mut self, id: I) {
        match self.fates.get_mut(&id) {
            Some(fate @ OutcomeState::Awaited) => {
                (*fate, self.unwanted) = (OutcomeState::Unwanted, self.unwanted + 1)
            }
            Some(OutcomeState::Here(_)) => drop(self.fates.remove(&id)),
            Some(OutcomeState::Unwanted) | None => {}
        }
    }

    pub(super) fn forget(&mut self, id: I) {
        self.unwanted -= usize::from(matches!(
            self.fates.remove(&id),
            Some(OutcomeState::Unwanted)
        ));
    }

    pub(super) fn open(&self) -> Vec<I> {
        self.fates
            .iter()
            .filter(|(_, fate)| !matches!(fate, OutcomeState::Here(_)))
            .map(|(&id, _)| id)
            .collect()
    }

    pub(super) fn settle(&mut self, id: I, outcome: T) {
        if let Some(OutcomeState::Unwanted) = self.fates.insert(id, OutcomeState::Here(outcome)) {
            self.unwanted -= 1;
            self.fates.remove(&id);
        }
    }

    pub(super) fn take(&mut self, id: I) -> Option<T> {
        let Entry::Occupied(entry) = self.fates.entry(id) else {
            return None;
        };
        if !matches!(entry.get(), OutcomeState::Here(_)) {
            return None;
        }
        if let OutcomeState::Here(outcome) = entry.remove() {
            Some(outcome)
        } else {
            None
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct FailureClaim {
    failure: Failure,
    since: Instant,
}

#[derive(Clone, Debug)]
pub(super) struct Claims {
    held_for: Duration,
    claims: BTreeMap<Rank, FailureClaim>,
}

impl Claims {
    pub(super) fn new(held_for: Duration) -> Claims {
        Claims {
            held_for,
            claims: BTreeMap::new(),
        }
    }

    /// Records that `claimant` claims a failure. Returns whether it is accepted: repeated for long
    /// enough, or also claimed by another rank.
    pub(super) fn make(&mut self, now: Instant, claimant: Rank, failure: Failure) -> bool {
        let mut others = self.claims.iter().filter(|&(&rank, _)| rank != claimant);
        if others.any(|(_, claim)| is_same(claim.failure.cause, failure.cause)) {
            return true;
        }
        let claim = self.claims.entry(claimant).or_insert(FailureClaim {
            failure,
            since: now,
        });
        if !is_same(claim.failure.cause, failure.cause) {
            *claim = FailureClaim {
                failure,
                since: now,
            };
        }
        now.since(claim.since) >= self.held_for
    }

    pub(super) fn withdraw(&mut self, claimant: Rank) {
        self.claims.remove(&claimant);
    }

    pub(super) fn of(&self, claimant: Rank) -> Option<Failure> {
        self.claims.get(&claimant).map(|claim| claim.failure)
    }

    pub(super) fn any(&self, number: u64) -> Option<Failure> {
        self.claims
            .values()
            .map(|claim| claim.failure)
            .find(|failure| failure.from <= number)
    }

    pub(super) fn take(&mut self, claimant: Rank) -> Option<Failure> {
        self.claims.remove(&claimant).map(|claim| claim.failure)
    }
}

fn is_same(one: Cause, other: Cause) -> bool {
    match (one, other) {
        (Cause::Mismatch { one, other }, Cause::Mismatch { one: a, other: b }) => {
            (one, other) == (a, b) || (one, other) == (b, a)
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod waits_tests {
    use super::*;
    use crate::communicator::signature::{Operation, Signature};

    fn blame(number: u64, waits_for: u16, others: &[(u64, Option<u16>)]) -> Option<Blame> {
        let size = others.len() as u16 + 1;
        let (mut waits, mut agreement) = (
            Waits::new(Instant::START, Rank(0), size),
            Agreement::new(Rank(0), size),
        );
        waits.set(Instant::START, Some(Rank(waits_for)));
        for (&(number, waits_for), rank) in others.iter().zip(1..) {
            waits.on_sign(Rank(rank), waits_for.map(Rank), 1);
            let signature = Signature {
                number,
                operation: Operation::Barrier,
                root: Rank(0),
                bytes: 0,
            };
            agreement.on_calls(Rank(rank), &[signature]);
        }
        waits.blame(&agreement, number)
    }

    #[test]
    fn the_culprit_is_found_along_the_line_of_those_who_wait() {
        let between = |one, other| {
            Some(Blame::Between {
                one: Rank(one),
                other: Rank(other),
            })
        };
        assert_eq!(
            blame(5, 1, &[(5, Some(2)), (4, None)]),
            Some(Blame::NotEntered { rank: Rank(2) })
        );
        assert_eq!(
            blame(5, 1, &[(5, Some(2)), (5, None)]),
            Some(Blame::TakesNothing {
                rank: Rank(2),
                from: Rank(1)
            })
        );
        assert_eq!(blame(5, 1, &[(5, Some(2)), (5, Some(1))]), between(1, 2));
        assert_eq!(
            blame(6, 3, &[(6, Some(0)), (6, Some(0)), (5, Some(2))]),
            between(3, 2),
            "in an earlier call"
        );
    }
}

#[cfg(test)]
mod claims_tests {
    use super::*;

    const HELD_FOR: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn gone(rank: u16, from: u64) -> Failure {
        Failure {
            from,
            cause: Cause::Gone { rank: Rank(rank) },
        }
    }

    #[test]
    fn a_claim_is_believed_when_it_is_kept_to_or_another_makes_it_too() {
        let mut claims = Claims::new(HELD_FOR);
        assert!(
            !claims.make(at(0), Rank(1), gone(3, 5)) && !claims.make(at(99), Rank(1), gone(3, 5))
        );
        assert!(claims.make(at(100), Rank(1), gone(3, 6)), "kept to");
        claims.withdraw(Rank(1));
        assert!(!claims.make(at(101), Rank(1), gone(3, 5)), "it begins anew");
        assert!(
            !claims.make(at(150), Rank(2), gone(1, 5)) && claims.make(at(160), Rank(2), gone(3, 7)),
            "two say so"
        );
        assert!(
            !claims.make(at(170), Rank(1), gone(2, 5)) && claims.take(Rank(1)) == Some(gone(2, 5))
        );
    }
}
