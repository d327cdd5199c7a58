//! Operations that somebody has asked for, and how they have ended, kept until it takes the outcome: several threads
//! share a member.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// What becomes of an outcome.
#[derive(Clone, Debug)]
enum AskedState<T> {
    /// It has not come yet.
    Awaited,
    /// Nobody wants it.
    Unwanted,
    /// It waits to be taken.
    Here(T),
}

/// The operations of one kind that have been asked for and whose outcomes have not been taken.
#[derive(Clone, Debug)]
pub(super) struct Pending<I, T> {
    fates: BTreeMap<I, AskedState<T>>,
    /// How many of them have outcomes that nobody wants.
    unwanted: usize,
}

impl<I, T> Default for Pending<I, T> {
    fn default() -> Pending<I, T> {
        Pending { fates: BTreeMap::new(), unwanted: 0 }
    }
}

impl<I: Ord + Copy, T> Pending<I, T> {
    /// Operations that somebody wants to know the end of.
    pub(super) fn wanted(&self) -> usize {
        self.fates.len() - self.unwanted
    }

    /// Whether anybody waits for one.
    pub(super) fn are_awaited(&self) -> bool {
        self.fates.values().any(|fate| matches!(fate, AskedState::Awaited))
    }

    /// An operation has been asked for.
    pub(super) fn add(&mut self, id: I) {
        self.fates.insert(id, AskedState::Awaited);
    }

    /// The outcome will not be taken.
    pub(super) fn ignore(&mut self, id: I) {
        match self.fates.get_mut(&id) {
            Some(fate @ AskedState::Awaited) => (*fate, self.unwanted) = (AskedState::Unwanted, self.unwanted + 1),
            Some(AskedState::Here(_)) => drop(self.fates.remove(&id)),
            Some(AskedState::Unwanted) | None => {}
        }
    }

    /// An operation that was cancelled has no outcome.
    pub(super) fn forget(&mut self, id: I) {
        self.unwanted -= usize::from(matches!(self.fates.remove(&id), Some(AskedState::Unwanted)));
    }

    /// All that have not ended.
    pub(super) fn open(&self) -> Vec<I> {
        self.fates.iter().filter(|(_, fate)| !matches!(fate, AskedState::Here(_))).map(|(&id, _)| id).collect()
    }

    /// An operation has ended.
    pub(super) fn settle(&mut self, id: I, outcome: T) {
        if let Some(AskedState::Unwanted) = self.fates.insert(id, AskedState::Here(outcome)) {
            self.unwanted -= 1;
            self.fates.remove(&id);
        }
    }

    /// The outcome, if it has come.
    pub(super) fn take(&mut self, id: I) -> Option<T> {
        let Entry::Occupied(entry) = self.fates.entry(id) else { return None };
        if !matches!(entry.get(), AskedState::Here(_)) {
            return None;
        }
        if let AskedState::Here(outcome) = entry.remove() { Some(outcome) } else { None }
    }
}
