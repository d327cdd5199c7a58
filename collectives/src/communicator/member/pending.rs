//! Operations and their outcomes, kept until the caller takes them: several threads share a member.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

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
        Pending { fates: BTreeMap::new(), unwanted: 0 }
    }
}

impl<I: Ord + Copy, T> Pending<I, T> {
    pub(super) fn wanted(&self) -> usize {
        self.fates.len() - self.unwanted
    }

    pub(super) fn are_awaited(&self) -> bool {
        self.fates.values().any(|fate| matches!(fate, OutcomeState::Awaited))
    }

    pub(super) fn add(&mut self, id: I) {
        self.fates.insert(id, OutcomeState::Awaited);
    }

    pub(super) fn ignore(&mut self, id: I) {
        match self.fates.get_mut(&id) {
            Some(fate @ OutcomeState::Awaited) => (*fate, self.unwanted) = (OutcomeState::Unwanted, self.unwanted + 1),
            Some(OutcomeState::Here(_)) => drop(self.fates.remove(&id)),
            Some(OutcomeState::Unwanted) | None => {}
        }
    }

    pub(super) fn forget(&mut self, id: I) {
        self.unwanted -= usize::from(matches!(self.fates.remove(&id), Some(OutcomeState::Unwanted)));
    }

    pub(super) fn open(&self) -> Vec<I> {
        self.fates.iter().filter(|(_, fate)| !matches!(fate, OutcomeState::Here(_))).map(|(&id, _)| id).collect()
    }

    pub(super) fn settle(&mut self, id: I, outcome: T) {
        if let Some(OutcomeState::Unwanted) = self.fates.insert(id, OutcomeState::Here(outcome)) {
            self.unwanted -= 1;
            self.fates.remove(&id);
        }
    }

    pub(super) fn take(&mut self, id: I) -> Option<T> {
        let Entry::Occupied(entry) = self.fates.entry(id) else { return None };
        if !matches!(entry.get(), OutcomeState::Here(_)) {
            return None;
        }
        if let OutcomeState::Here(outcome) = entry.remove() { Some(outcome) } else { None }
    }
}
