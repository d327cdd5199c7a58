//! How sends and receives have ended, kept until whoever asked takes it: several threads share a member.

use ethbcast_transport::messages::{Completion, Mailbox, RecvId, RecvOutcome, SendId, SendOutcome};
use std::collections::BTreeMap;

/// What becomes of an outcome.
#[derive(Debug)]
enum Fate<T> {
    /// It has not come yet.
    Awaited,
    /// Nobody wants it.
    Unwanted,
    /// It waits to be taken.
    Here(T),
}

/// The sends and receives of one member that have been asked for and not taken.
#[derive(Debug, Default)]
pub(in crate::communicator) struct Outcomes {
    sends: BTreeMap<SendId, Fate<SendOutcome>>,
    receives: BTreeMap<RecvId, Fate<RecvOutcome>>,
    /// How many of either have outcomes that nobody wants.
    unwanted: (usize, usize),
}

impl Outcomes {
    /// Sends that have not ended or whose outcome has not been taken.
    pub(super) fn sends(&self) -> usize {
        self.sends.len() - self.unwanted.0
    }

    /// Receives likewise.
    pub(super) fn receives(&self) -> usize {
        self.receives.len() - self.unwanted.1
    }

    /// Whether anybody waits for one.
    pub(super) fn are_awaited(&self) -> bool {
        let sends = self.sends.values().any(|fate| matches!(fate, Fate::Awaited));
        sends || self.receives.values().any(|fate| matches!(fate, Fate::Awaited))
    }

    pub(in crate::communicator) fn await_send(&mut self, id: SendId) {
        self.sends.insert(id, Fate::Awaited);
    }

    pub(in crate::communicator) fn await_receive(&mut self, id: RecvId) {
        self.receives.insert(id, Fate::Awaited);
    }

    /// The outcome of a send will not be taken.
    pub(in crate::communicator) fn ignore_send(&mut self, id: SendId) {
        match self.sends.get_mut(&id) {
            Some(fate @ Fate::Awaited) => (*fate, self.unwanted.0) = (Fate::Unwanted, self.unwanted.0 + 1),
            Some(Fate::Here(_)) => drop(self.sends.remove(&id)),
            Some(Fate::Unwanted) | None => {}
        }
    }

    /// The outcome of a receive will not be taken.
    pub(in crate::communicator) fn ignore_receive(&mut self, id: RecvId) {
        match self.receives.get_mut(&id) {
            Some(fate @ Fate::Awaited) => (*fate, self.unwanted.1) = (Fate::Unwanted, self.unwanted.1 + 1),
            Some(Fate::Here(_)) => drop(self.receives.remove(&id)),
            Some(Fate::Unwanted) | None => {}
        }
    }

    /// A send that was cancelled has no outcome.
    pub(super) fn forget_send(&mut self, id: SendId) {
        self.unwanted.0 -= usize::from(matches!(self.sends.remove(&id), Some(Fate::Unwanted)));
    }

    /// A receive that was cancelled has no outcome.
    pub(super) fn forget_receive(&mut self, id: RecvId) {
        self.unwanted.1 -= usize::from(matches!(self.receives.remove(&id), Some(Fate::Unwanted)));
    }

    /// All receives that have not ended.
    pub(super) fn posted(&self) -> Vec<RecvId> {
        self.receives.iter().filter(|(_, fate)| !matches!(fate, Fate::Here(_))).map(|(&id, _)| id).collect()
    }

    pub(in crate::communicator) fn take_sent(&mut self, id: SendId) -> Option<SendOutcome> {
        matches!(self.sends.get(&id), Some(Fate::Here(_))).then(|| self.sends.remove(&id)).flatten().and_then(Fate::here)
    }

    pub(in crate::communicator) fn take_received(&mut self, id: RecvId) -> Option<RecvOutcome> {
        matches!(self.receives.get(&id), Some(Fate::Here(_))).then(|| self.receives.remove(&id)).flatten().and_then(Fate::here)
    }

    /// Takes over what has ended in the mailbox.
    pub(super) fn collect(&mut self, mailbox: &mut Mailbox) {
        while let Some(completion) = mailbox.poll_completion() {
            match completion {
                Completion::Send { id, outcome } => settle(&mut self.sends, &mut self.unwanted.0, id, outcome),
                Completion::Recv { id, outcome } => settle(&mut self.receives, &mut self.unwanted.1, id, outcome),
            }
        }
    }
}

impl<T> Fate<T> {
    fn here(self) -> Option<T> {
        match self {
            Fate::Here(outcome) => Some(outcome),
            _ => None,
        }
    }
}

fn settle<I: Ord, T>(fates: &mut BTreeMap<I, Fate<T>>, unwanted: &mut usize, id: I, outcome: T) {
    if matches!(fates.get(&id), Some(Fate::Unwanted)) {
        *unwanted -= 1;
        fates.remove(&id);
    } else {
        fates.insert(id, Fate::Here(outcome));
    }
}
