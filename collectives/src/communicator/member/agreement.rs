//! Agreement on collectives: the calls of this rank, the calls reported by others, and why
//! collectives cannot go on.

use crate::communicator::body::TOLD_CALLS;
use crate::communicator::failure::Failure;
use crate::communicator::signature::{Operation, Signature};
use ethbcast_transport::wire::Rank;
use std::collections::VecDeque;

const REMEMBERED_CALLS: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Agreement {
    own: Rank,
    next: u64,
    history: VecDeque<Signature>,
    others: Vec<Option<Signature>>,
    ahead: u64,
    current: Option<Signature>,
    failure: Option<Failure>,
}

impl Agreement {
    pub(super) fn new(own: Rank, size: u16) -> Agreement {
        let (history, others) = (VecDeque::with_capacity(REMEMBERED_CALLS), vec![None; usize::from(size)]);
        Agreement { own, next: 0, history, others, ahead: 0, current: None, failure: None }
    }

    pub(super) fn last(&self) -> [Option<Signature>; TOLD_CALLS] {
        let mut newest = self.history.iter().rev().copied();
        std::array::from_fn(|_| newest.next())
    }

    pub(super) fn current(&self) -> Option<Signature> {
        self.current
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Begins the next call, and compares it with the calls reported by others. Returns a mismatch
    /// and the rank whose call differs.
    pub(super) fn begin(
        &mut self,
        operation: Operation,
        root: Rank,
        bytes: u64,
    ) -> (Signature, Option<(Rank, Failure)>) {
        let signature = Signature { number: self.next, operation, root, bytes };
        self.next += 1;
        if self.history.len() == REMEMBERED_CALLS {
            self.history.pop_front();
        }
        self.history.push_back(signature);
        self.current = Some(signature);
        let differs = |other: &Option<Signature>| other.is_some_and(|other| differ(other, signature));
        // Others are rarely ahead; only then are all compared.
        let other = if self.ahead > signature.number { self.others.iter().position(differs) } else { None };
        let mismatch = other.and_then(|rank| {
            let theirs = (Rank(rank as u16), self.others[rank]?);
            Some((theirs.0, Failure::mismatch(theirs, (self.own, signature))))
        });
        (signature, mismatch)
    }

    pub(super) fn calls(&self) -> u64 {
        self.next
    }

    pub(super) fn end(&mut self) {
        self.current = None;
    }

    pub(super) fn compare(&self, rank: Rank, signature: Signature) -> Option<Failure> {
        let own = self.history.iter().find(|own| differ(**own, signature))?;
        Some(Failure::mismatch((rank, signature), (self.own, *own)))
    }

    /// Records the recent calls of `rank`, newest first; they replace its earlier report. Returns a
    /// mismatch if this rank remembers a different call of one of these numbers.
    pub(super) fn on_calls(&mut self, rank: Rank, calls: &[Signature]) -> Option<Failure> {
        self.others[rank.index()] = calls.first().copied();
        self.ahead = self.ahead.max(calls.first().map_or(0, |newest| newest.number.saturating_add(1)));
        calls.iter().rev().find_map(|&signature| self.compare(rank, signature))
    }

    pub(super) fn newest_of(&self, rank: Rank) -> u64 {
        self.others[rank.index()].map_or(0, |signature| signature.number)
    }

    pub(super) fn has_called(&self, rank: Rank, number: u64) -> bool {
        self.others[rank.index()].is_some_and(|signature| signature.number >= number)
    }

    pub(super) fn missing(&self, number: u64) -> Vec<Rank> {
        let ranks = (0..self.others.len() as u16).map(Rank);
        ranks.filter(|&rank| rank != self.own && !self.has_called(rank, number)).collect()
    }

    /// Records that collectives cannot go on. The first failure stands, unless the new one is about
    /// earlier calls. Returns whether the new one stands.
    pub(super) fn fail(&mut self, failure: Failure) -> bool {
        let stands = self.failure.is_none_or(|known| failure.from < known.from);
        if stands {
            self.failure = Some(failure);
        }
        stands
    }

    pub(super) fn failure_of(&self, number: u64) -> Option<Failure> {
        self.failure.filter(|failure| failure.from <= number)
    }
}

fn differ(one: Signature, other: Signature) -> bool {
    one.number == other.number && one != other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communicator::failure::Cause;

    fn barrier(number: u64) -> Signature {
        Signature { number, operation: Operation::Barrier, root: Rank(0), bytes: 0 }
    }

    #[test]
    fn a_call_that_differs_is_noticed_whoever_comes_first() {
        let mut agreement = Agreement::new(Rank(0), 3);
        assert_eq!(agreement.on_calls(Rank(2), &[barrier(1)]), None, "this rank has called nothing yet");
        assert_eq!(agreement.begin(Operation::Gather, Rank(0), 4).1, None);
        let (gather, mismatch) = agreement.begin(Operation::Gather, Rank(0), 4);
        let expected = |rank| {
            let cause = Cause::Mismatch { one: (Rank(rank), barrier(1)), other: (Rank(0), gather) };
            Failure { from: 1, cause }
        };
        assert_eq!(mismatch, Some((Rank(2), expected(2))));
        assert_eq!(agreement.on_calls(Rank(1), &[barrier(1)]), Some(expected(1)));
        assert_eq!(agreement.missing(1), []);
        assert_eq!(agreement.missing(2), [Rank(1), Rank(2)]);
        agreement.on_calls(Rank(2), &[barrier(u64::MAX)]);
        agreement.on_calls(Rank(2), &[barrier(1)]);
        assert_eq!(
            (agreement.newest_of(Rank(2)), agreement.has_called(Rank(2), 2)),
            (1, false),
            "its last word counts"
        );
    }

    #[test]
    fn the_first_reason_stands_unless_another_is_about_earlier_calls_and_calls_before_it_are_not_touched() {
        let mut agreement = Agreement::new(Rank(0), 2);
        let first = Failure { from: 5, cause: Cause::Left { rank: Rank(1) } };
        assert!(agreement.fail(first) && !agreement.fail(Failure { from: 5, cause: Cause::Gone { rank: Rank(1) } }));
        assert_eq!((agreement.failure_of(4), agreement.failure_of(5)), (None, Some(first)));
        let earlier = Failure { from: 4, cause: Cause::Gone { rank: Rank(1) } };
        assert!(agreement.fail(earlier));
        assert_eq!(agreement.failure_of(5), Some(earlier));
    }
}
