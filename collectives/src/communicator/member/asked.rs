//! Operations and their outcomes, kept until the caller takes them: several threads share a member.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

#[derive(Clone, Debug)]
enum AskedState<T> {
    Awaited,
    Unwanted,
    Here(T),
}

#[derive(Clone, Debug)]
pub(super) struct Pending<I, T> {
    fates: BTreeMap<I, AskedState<T>>,
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
        self.fates.values().any(|fate| matches!(fate, AskedState::Awaited))
    }

    pub(super) fn add(&mut self, id: I) {
        self.fates.insert(id, AskedState::Awaited);
    }

    pub(super) fn ignore(&mut self, id: I) {
        match self.fates.get_mut(&id) {
            Some(fate @ AskedState::Awaited) => (*fate, self.unwanted) = (AskedState::Unwanted, self.unwanted + 1),
            Some(AskedState::Here(_)) => drop(self.fates.remove(&id)),
            Some(AskedState::Unwanted) | None => {}
        }
    }

    pub(super) fn forget(&mut self, id: I) {
        self.unwanted -= usize::from(matches!(self.fates.remove(&id), Some(AskedState::Unwanted)));
    }

    pub(super) fn open(&self) -> Vec<I> {
        self.fates.iter().filter(|(_, fate)| !matches!(fate, AskedState::Here(_))).map(|(&id, _)| id).collect()
    }

    pub(super) fn settle(&mut self, id: I, outcome: T) {
        if let Some(AskedState::Unwanted) = self.fates.insert(id, AskedState::Here(outcome)) {
            self.unwanted -= 1;
            self.fates.remove(&id);
        }
    }

    pub(super) fn take(&mut self, id: I) -> Option<T> {
        let Entry::Occupied(entry) = self.fates.entry(id) else { return None };
        if !matches!(entry.get(), AskedState::Here(_)) {
            return None;
        }
        if let AskedState::Here(outcome) = entry.remove() { Some(outcome) } else { None }
    }
}
