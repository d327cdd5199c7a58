//! Machine with a time limit, at which its loop is woken whatever it waits for.

use ethbcast_transport::{Deadline, Instant, Kept, Machine, SplitFrame, Timer};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Limited<M> {
    machine: M,
    until: Option<Instant>,
    session_until: Option<Instant>,
}

impl<M> Limited<M> {
    pub(super) fn new(machine: M, began: Instant, limit: Option<Duration>) -> Limited<M> {
        Limited { machine, until: limit.map(|limit| began + limit), session_until: None }
    }

    /// Sets the end of the session that has begun, beside that of the run.
    pub(super) fn limit_session(&mut self, until: Option<Instant>) {
        self.session_until = until;
    }

    /// Whether the session's limit has passed; true only once.
    pub(super) fn take_session_over(&mut self, now: Instant) -> bool {
        self.session_until.take_if(|until| *until <= now).is_some()
    }

    /// Whether the limit has passed; true only once.
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
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        self.machine.handle_frame(now, frame);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.machine.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.machine.poll_transmit(now, buffer)
    }

    fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        self.machine.poll_transmit_split(now, buffer)
    }

    fn payload(&self, kept: Kept) -> &[u8] {
        self.machine.payload(kept)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let limit = self.until.into_iter().chain(self.session_until).min();
        let limit = limit.map(|at| Deadline { at, why: Timer("limit") });
        self.machine.poll_timeout(now).into_iter().chain(limit).min()
    }

    fn is_urgent(&self) -> bool {
        self.machine.is_urgent()
    }
}
