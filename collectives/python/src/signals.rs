//! Ctrl-C while a call waits.

use ethbcast_collectives::communicator::Meanwhile;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// How often a call that waits looks for signals: at once, for whoever pressed the key.
pub const EVERY: Duration = Duration::from_millis(50);

/// What a handler of signals has raised while a call waited.
#[derive(Clone, Default)]
pub struct Signals {
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Signals {
    /// What calls of a communicator do while they wait: they run the program's handlers, and end if one raises.
    pub fn meanwhile(&self) -> Meanwhile {
        let signals = self.clone();
        Meanwhile::new(EVERY, move || match Python::try_attach(|py| py.check_signals()) {
            Some(Err(raised)) => {
                *signals.raised.lock() = Some(raised);
                ControlFlow::Break(())
            }
            // Without an interpreter, which is ending, there is nobody to ask.
            Some(Ok(())) | None => ControlFlow::Continue(()),
        })
    }

    /// What was raised, if a call has ended because of it.
    pub fn take(&self) -> Option<PyErr> {
        self.raised.lock().take()
    }
}
