//! Time limits of a transfer, as deadlines added to those of its protocol machine.

use ethbcast_transport::{Deadline, Instant, Machine, Timer};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Limited<M> {
    machine: M,
    until: Option<Instant>,
    session_until: Option<Instant>,
    look_at: Option<Instant>,
}

impl<M> Limited<M> {
    pub(super) fn new(machine: M, began: Instant, limit: Option<Duration>) -> Limited<M> {
        Limited { machine, until: limit.map(|limit| began + limit), session_until: None, look_at: None }
    }

    pub(super) fn look_at(&mut self, at: Option<Instant>) {
        self.look_at = at;
    }

    pub(super) fn limit_session(&mut self, until: Option<Instant>) {
        self.session_until = until;
    }

    /// Whether the session's limit has passed; true only once.
    pub(super) fn take_session_over(&mut self, now: Instant) -> bool {
        self.session_until.take_if(|until| *until <= now).is_some()
    }

    /// Whether the run's limit has passed; true only once.
    pub(super) fn take_over(&mut self, now: Instant) -> bool {
        self.until.take_if(|until| *until <= now).is_some()
    }

    pub(super) fn into_inner(self) -> M {
        self.machine
    }
}

impl<M> Deref for Limited<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.machine
    }
}

impl<M> DerefMut for Limited<M> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.machine
    }
}

impl<M: Machine> Machine for Limited<M> {
    ethbcast_transport::forward!(self => self.machine; handle_frame, handle_timeout, poll_transmit);
    ethbcast_transport::forward!(self => self.machine; poll_transmit_split, payload, is_urgent);

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let limit = self.until.into_iter().chain(self.session_until).chain(self.look_at).min();
        let limit = limit.map(|at| Deadline { at, why: Timer("limit") });
        self.machine.poll_timeout(now).into_iter().chain(limit).min()
    }
}
