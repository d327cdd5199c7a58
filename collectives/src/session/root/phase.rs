//! The phases of a root, one after the other.

use super::closing::Closing;
use super::gathering::Gathering;
use super::running::Running;

/// How far a root is.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    Gathering(Box<Gathering>),
    Running(Box<Running>),
    /// What is known of the members stays, if there were any.
    Closing(Closing, Option<Box<Running>>),
    Ended(Option<Box<Running>>),
}

impl Phase {
    /// The members and their stream, from the first view on.
    pub(super) fn running(&self) -> Option<&Running> {
        match self {
            Phase::Gathering(_) => None,
            Phase::Running(running) => Some(running),
            Phase::Closing(_, members) | Phase::Ended(members) => members.as_deref(),
        }
    }

    pub(super) fn running_mut(&mut self) -> Option<&mut Running> {
        match self {
            Phase::Gathering(_) => None,
            Phase::Running(running) => Some(running),
            Phase::Closing(_, members) | Phase::Ended(members) => members.as_deref_mut(),
        }
    }

    /// Whether it gathers or runs: it has its group.
    pub(super) fn has_group(&self) -> bool {
        matches!(self, Phase::Gathering(_) | Phase::Running(_))
    }

    /// Leaves the phase; what is known of the members.
    pub(super) fn take(&mut self) -> Option<Box<Running>> {
        match std::mem::replace(self, Phase::Ended(None)) {
            Phase::Gathering(_) => None,
            Phase::Running(running) => Some(running),
            Phase::Closing(_, members) | Phase::Ended(members) => members,
        }
    }
}
