//! Failures claimed by other ranks and not yet believed.
//!
//! One frame proves nothing: it may be forged. A rank that has really failed repeats its claim, and
//! claims nothing else in between.

use crate::communicator::failure::{Cause, Failure};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
struct FailureClaim {
    failure: Failure,
    since: Instant,
}

#[derive(Clone, Debug)]
pub(super) struct Claims {
    /// Time within which a rank that has not failed contradicts a forged claim.
    held_for: Duration,
    claims: BTreeMap<Rank, FailureClaim>,
}

impl Claims {
    /// Creates an empty set; a claim is believed when it is repeated after `held_for`.
    pub(super) fn new(held_for: Duration) -> Claims {
        Claims { held_for, claims: BTreeMap::new() }
    }

    /// Records that `teller` claims a failure. Returns whether it is to be believed: repeated for
    /// long enough, or also claimed by another rank.
    pub(super) fn make(&mut self, now: Instant, teller: Rank, failure: Failure) -> bool {
        let mut others = self.claims.iter().filter(|&(&rank, _)| rank != teller);
        if others.any(|(_, claim)| is_same(claim.failure.cause, failure.cause)) {
            return true;
        }
        let claim = self.claims.entry(teller).or_insert(FailureClaim { failure, since: now });
        if !is_same(claim.failure.cause, failure.cause) {
            *claim = FailureClaim { failure, since: now };
        }
        now.since(claim.since) >= self.held_for
    }

    pub(super) fn withdraw(&mut self, teller: Rank) {
        self.claims.remove(&teller);
    }

    pub(super) fn of(&self, teller: Rank) -> Option<Failure> {
        self.claims.get(&teller).map(|claim| claim.failure)
    }

    pub(super) fn any(&self, number: u64) -> Option<Failure> {
        self.claims.values().map(|claim| claim.failure).find(|failure| failure.from <= number)
    }

    pub(super) fn take(&mut self, teller: Rank) -> Option<Failure> {
        self.claims.remove(&teller).map(|claim| claim.failure)
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
mod tests {
    use super::*;

    const HELD_FOR: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn gone(rank: u16, from: u64) -> Failure {
        Failure { from, cause: Cause::Gone { rank: Rank(rank) } }
    }

    #[test]
    fn a_claim_is_believed_when_it_is_kept_to_or_another_makes_it_too() {
        let mut claims = Claims::new(HELD_FOR);
        assert!(!claims.make(at(0), Rank(1), gone(3, 5)) && !claims.make(at(99), Rank(1), gone(3, 5)));
        assert!(claims.make(at(100), Rank(1), gone(3, 6)), "kept to");
        claims.withdraw(Rank(1));
        assert!(!claims.make(at(101), Rank(1), gone(3, 5)), "it begins anew");
        assert!(!claims.make(at(150), Rank(2), gone(1, 5)) && claims.make(at(160), Rank(2), gone(3, 7)), "two say so");
        assert!(!claims.make(at(170), Rank(1), gone(2, 5)) && claims.take(Rank(1)) == Some(gone(2, 5)));
    }
}
