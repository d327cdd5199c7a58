//! The phases of a root.

use super::closing::Closing;
use super::gathering::Gathering;
use super::running::SessionPhase;

#[derive(Clone, Debug)]
pub(super) enum RootPhase {
    Gathering(Box<Gathering>),
    Running(Box<SessionPhase>),
    Closing(Closing, Option<Box<SessionPhase>>),
    Ended(Option<Box<SessionPhase>>),
}

impl RootPhase {
    pub(super) fn running(&self) -> Option<&SessionPhase> {
        match self {
            RootPhase::Gathering(_) => None,
            RootPhase::Running(running) => Some(running),
            RootPhase::Closing(_, members) | RootPhase::Ended(members) => members.as_deref(),
        }
    }

    pub(super) fn running_mut(&mut self) -> Option<&mut SessionPhase> {
        match self {
            RootPhase::Gathering(_) => None,
            RootPhase::Running(running) => Some(running),
            RootPhase::Closing(_, members) | RootPhase::Ended(members) => members.as_deref_mut(),
        }
    }

    pub(super) fn has_group(&self) -> bool {
        matches!(self, RootPhase::Gathering(_) | RootPhase::Running(_))
    }

    pub(super) fn take(&mut self) -> Option<Box<SessionPhase>> {
        match std::mem::replace(self, RootPhase::Ended(None)) {
            RootPhase::Gathering(_) => None,
            RootPhase::Running(running) => Some(running),
            RootPhase::Closing(_, members) | RootPhase::Ended(members) => members,
        }
    }
}
