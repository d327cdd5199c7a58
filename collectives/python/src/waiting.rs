//! Early end of a blocking Python call: by a cancel handle, a time limit or Ctrl-C.

use crate::failure::Failure;
use ethbcast_collectives::communicator::Meanwhile;
use ethbcast_collectives::lock::Mutex;
use ethbcast_collectives::session::{Progress, RunOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Interval of checks in a waiting call; short enough to seem immediate.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A handle that ends calls from any thread, or after some seconds; a call takes it as `cancel=`.
#[pyclass(frozen, from_py_object, module = "ethbcast")]
#[derive(Clone, Debug)]
pub struct Cancel {
    was_used: Arc<AtomicBool>,
    by: Option<Instant>,
}

#[pymethods]
impl Cancel {
    #[new]
    #[pyo3(signature = (*, after=None))]
    fn new(after: Option<f64>) -> PyResult<Cancel> {
        let no_time =
            |seconds| PyValueError::new_err(format!("{seconds} seconds are no time to wait"));
        let after = after
            .map(|seconds| Duration::try_from_secs_f64(seconds).map_err(|_| no_time(seconds)))
            .transpose()?;
        Ok(Cancel {
            was_used: Arc::default(),
            by: after.and_then(|after| Instant::now().checked_add(after)),
        })
    }

    /// Ends the calls that have this handle, now and later, from any thread.
    fn cancel(&self) {
        self.was_used.store(true, Ordering::Relaxed);
    }

    /// Whether calls with this handle end.
    #[getter]
    fn is_cancelled(&self) -> bool {
        self.was_used.load(Ordering::Relaxed) || self.by.is_some_and(|by| by <= Instant::now())
    }
}

impl Cancel {
    /// Runs a call of a communicator in this thread, which the handle ends.
    pub fn over<T>(cancel: Option<Cancel>, call: impl FnOnce() -> T) -> T {
        let before = CURRENT.replace(cancel);
        let ended = call();
        CURRENT.set(before);
        ended
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Cancel>> = const { RefCell::new(None) };
}

/// Exception raised by a signal handler while a call waited.
#[derive(Clone, Default)]
pub struct Signals {
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Signals {
    /// Returns the hook of waiting calls: it runs the program's signal handlers, and ends the call
    /// if one raises, or the call's handle was used.
    pub fn meanwhile(&self) -> Meanwhile {
        let signals = self.clone();
        Meanwhile::new(CHECK_INTERVAL, move || {
            if CURRENT.with_borrow(|cancel| cancel.as_ref().is_some_and(Cancel::is_cancelled)) {
                return ControlFlow::Break(());
            }
            match Python::try_attach(|py| py.check_signals()) {
                Some(Err(raised)) => {
                    *signals.raised.lock() = Some(raised);
                    ControlFlow::Break(())
                }
                // The interpreter is shutting down, so there are no handlers.
                Some(Ok(())) | None => ControlFlow::Continue(()),
            }
        })
    }

    pub fn take(&self) -> Option<PyErr> {
        self.raised.lock().take()
    }
}

/// Progress: bytes sent or received, at a sender those of the slowest receiver, which is named.
struct Moved {
    bytes: u64,
    slowest: Option<String>,
}

/// A session on its own thread, while the caller's thread checks what may end it, and reports
/// progress.
pub struct Watched {
    pub run: RunOptions,
    pub progress: Option<Py<PyAny>>,
    pub cancel: Option<Cancel>,
}

impl Watched {
    /// Runs a session to its end. The program's handle and an exception of a signal handler or of
    /// `progress` cancel it. The exception is raised when it has ended and the other hosts are
    /// informed.
    ///
    /// # Errors
    /// The session's failure, or the exception.
    pub fn start<T: Send>(
        self,
        py: Python<'_>,
        session: impl FnOnce(RunOptions) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        let Watched {
            mut run,
            progress,
            cancel,
        } = self;
        let ends = run.cancel.clone();
        let (tell, told) = mpsc::channel();
        run.on_progress(move |event| {
            if let Progress::Moved { bytes, slowest, .. } = event {
                // The receiver is gone if the session was cancelled.
                drop(tell.send(Moved {
                    bytes,
                    slowest: slowest.map(|(host, _)| host.to_owned()),
                }));
            }
        });
        py.detach(move || {
            thread::scope(|scope| {
                // The session's end drops the options and their progress callback, which closes the
                // channel.
                let work = move || session(run);
                let running = thread::Builder::new()
                    .name("ethbcast".to_owned())
                    .spawn_scoped(scope, work)?;
                let is_cancelled = || cancel.as_ref().is_some_and(Cancel::is_cancelled);
                let mut watched = Ok(true);
                while let Ok(true) = watched {
                    if is_cancelled() {
                        ends.cancel();
                    }
                    watched = watch(&told, progress.as_ref());
                }
                if watched.is_err() {
                    ends.cancel();
                }
                let ended = running.join();
                watched?;
                Ok(ended.unwrap_or_else(|panic| resume_unwind(panic))?)
            })
        })
    }
}

/// Waits for the next progress or check; returns whether the session goes on.
fn watch(told: &Receiver<Moved>, progress: Option<&Py<PyAny>>) -> PyResult<bool> {
    let moved = match told.recv_timeout(CHECK_INTERVAL) {
        Ok(moved) => Some(moved),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => return Ok(false),
    };
    Python::attach(|py| {
        py.check_signals()?;
        let (Some(Moved { bytes, slowest }), Some(progress)) = (moved, progress) else {
            return Ok(true);
        };
        progress.call1(py, (bytes, slowest)).map(|_| true)
    })
}
