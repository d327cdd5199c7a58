//! Waits that run the caller's hook in between.

use super::{Communicator, Error, Meanwhile};
use crate::communicator::Member;
use ethbcast_transport::Instant;
use ethbcast_transport::packet::{NodePort, Shared};
use parking_lot::MutexGuard;
use std::ops::ControlFlow;

/// Waits as [`Shared::wait`] does, and runs the caller's hook in between.
///
/// # Errors
/// The socket's own, and [`Error::Interrupted`].
pub(super) fn wait<T>(
    shared: &Shared<Member, NodePort>,
    meanwhile: Option<&Meanwhile>,
    deadline: Option<Instant>,
    mut turn: impl FnMut(&mut Member, Instant) -> ControlFlow<T>,
) -> Result<Option<T>, Error> {
    let Some(other) = meanwhile else { return Ok(shared.wait(deadline, turn)?) };
    loop {
        let next = shared.now() + other.every();
        let until = deadline.map_or(next, |deadline| deadline.min(next));
        let ended = shared.wait(Some(until), &mut turn)?;
        if ended.is_some() || deadline.is_some_and(|deadline| deadline <= until) {
            return Ok(ended);
        }
        if other.work().is_break() {
            return Err(Error::Interrupted);
        }
    }
}

impl Communicator {
    pub(super) fn wait<T>(
        &self,
        deadline: Option<Instant>,
        turn: impl FnMut(&mut Member, Instant) -> ControlFlow<T>,
    ) -> Result<Option<T>, Error> {
        wait(self.shared()?, self.meanwhile.as_ref(), deadline, turn)
    }

    pub(super) fn collective_turn(&self) -> Result<MutexGuard<'_, ()>, Error> {
        let shared = self.shared()?;
        let deadline = shared.now() + self.call_within;
        loop {
            let rest = deadline.since(shared.now());
            let part = self.meanwhile.as_ref().map_or(rest, |other| rest.min(other.every()));
            if let Some(turn) = self.collective.try_lock_for(part) {
                return Ok(turn);
            }
            if shared.now() >= deadline {
                let what = "a collective behind those of other threads".into();
                return Err(Error::TimedOut { what, within: self.call_within });
            }
            if self.meanwhile.as_ref().is_some_and(|other| other.work().is_break()) {
                return Err(Error::Interrupted);
            }
        }
    }
}
