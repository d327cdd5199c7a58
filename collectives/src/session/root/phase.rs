//! The phases of a root.

use super::closing::Closing;
use super::gathering::Gathering;
use super::running::Running;

#[derive(Clone, Debug)]
pub(super) enum Phase {
    Gathering(Box<Gathering>),
    Running(Box<Running>),
    Closing(Closing, Option<Box<Running>>),
    Ended(Option<Box<Running>>),
}

impl Phase {
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

    pub(super) fn has_group(&self) -> bool {
        matches!(self, Phase::Gathering(_) | Phase::Running(_))
    }

    pub(super) fn take(&mut self) -> Option<Box<Running>> {
        match std::mem::replace(self, Phase::Ended(None)) {
            Phase::Gathering(_) => None,
            Phase::Running(running) => Some(running),
            Phase::Closing(_, members) | Phase::Ended(members) => members,
        }
    }
}
