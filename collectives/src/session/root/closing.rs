//! The end of a session: the root repeats its last word.

use super::RootEndpoint;
use super::running::Running;
use crate::membership::timers::{TimerTable, Wait};
use crate::session::message::Message;
use ethbcast_transport::{Deadline, Instant};

/// Repeats the last word: the verdict on all, or that the root gives up.
#[derive(Debug)]
pub(super) struct Closing {
    last_word: Message,
    /// How many times it is still to be sent.
    left: u32,
    timers: TimerTable,
    /// What is known of the members, if there were any.
    members: Option<Box<Running>>,
}

impl Closing {
    pub(super) fn new(now: Instant, last_word: Message, times: u32, mut members: Option<Box<Running>>) -> Closing {
        let mut timers = TimerTable::default();
        timers.set(Wait::Verdict, now);
        if let Some(members) = &mut members {
            members.stop();
        }
        Closing { last_word, left: times, timers, members }
    }

    /// Sends the last word when it is time to; whether it has been sent often enough.
    pub(super) fn handle_timeout(&mut self, now: Instant, endpoint: &mut RootEndpoint) -> bool {
        if !self.timers.take_due(Wait::Verdict, now) {
            return false;
        }
        if self.left > 0 {
            self.left -= 1;
            endpoint.send_to_group(&self.last_word);
            self.timers.set(Wait::Verdict, now + endpoint.config().timing.verdict / 4);
            return false;
        }
        true
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.timers.next()
    }

    pub(super) fn members(&self) -> Option<&Running> {
        self.members.as_deref()
    }

    pub(super) fn members_mut(&mut self) -> Option<&mut Running> {
        self.members.as_deref_mut()
    }

    pub(super) fn into_members(self) -> Option<Box<Running>> {
        self.members
    }
}
