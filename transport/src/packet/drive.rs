//! The loop that runs one machine on one port.

use super::{Clock, DriveError, Port, Waker};
use crate::{Instant, Machine};
use std::ops::ControlFlow;

/// Runs [`crate::drive()`] on a port: drives `machine` until `application` breaks, and returns the
/// value it broke with. The loop sleeps in `poll(2)`; `waker` interrupts that.
///
/// # Errors
///
/// See [`DriveError`].
pub fn drive<M: Machine, T>(
    port: &mut Port,
    machine: &mut M,
    waker: &Waker,
    clock: &Clock,
    application: impl FnMut(&mut M, Instant) -> ControlFlow<T>,
) -> Result<T, DriveError> {
    let sleeper = port.sleeper(waker.clone()).map_err(|errno| {
        let interface = port.interface().name.clone();
        DriveError::System { interface, step: "set a timer", errno }
    })?;
    crate::drive(port, machine, &sleeper, clock, application)
}
