//! Handling of Ctrl-C while a call waits.

use ethbcast_collectives::communicator::Meanwhile;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Interval of signal checks in a waiting call; short enough to seem immediate.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Exception raised by a signal handler while a call waited.
#[derive(Clone, Default)]
pub struct Signals {
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Signals {
    /// Returns the hook of waiting calls: it runs the program's signal handlers, and ends the call
    /// if one raises.
    pub fn meanwhile(&self) -> Meanwhile {
        let signals = self.clone();
        Meanwhile::new(CHECK_INTERVAL, move || match Python::try_attach(|py| py.check_signals()) {
            Some(Err(raised)) => {
                *signals.raised.lock() = Some(raised);
                ControlFlow::Break(())
            }
            // The interpreter is shutting down, so there are no handlers.
            Some(Ok(())) | None => ControlFlow::Continue(()),
        })
    }

    /// Takes the exception, if one has ended a call.
    pub fn take(&self) -> Option<PyErr> {
        self.raised.lock().take()
    }
}
