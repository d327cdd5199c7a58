//! A session on its own thread, while the caller's thread checks for signals and reports progress.

use crate::failure::Failure;
use crate::signals;
use ethbcast_collectives::session::{Progress, RunOptions};
use pyo3::prelude::*;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;

/// Progress: bytes sent or received, at a sender those of the slowest receiver, which is named.
struct Moved {
    bytes: u64,
    slowest: Option<String>,
}

/// Runs a session to its end. An exception of a signal handler or of `progress` cancels it, and is
/// raised when it has ended and the other hosts are informed.
///
/// # Errors
/// The session's failure, or the exception.
pub fn run<T: Send>(
    py: Python<'_>,
    mut run: RunOptions,
    progress: Option<Py<PyAny>>,
    session: impl FnOnce(RunOptions) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let cancel = run.cancel.clone();
    let (tell, told) = mpsc::channel();
    run.on_progress(move |event| {
        if let Progress::Moved { bytes, slowest, .. } = event {
            // The receiver is gone if the session was cancelled.
            drop(tell.send(Moved { bytes, slowest: slowest.map(|(host, _)| host.to_owned()) }));
        }
    });
    py.detach(move || {
        thread::scope(|scope| {
            // The session's end drops the options and their progress callback, which closes the
            // channel.
            let work = move || session(run);
            let running = thread::Builder::new().name("ethbcast".to_owned()).spawn_scoped(scope, work)?;
            let watched = watch(&told, progress.as_ref());
            if watched.is_err() {
                cancel.cancel();
            }
            let ended = running.join();
            watched?;
            Ok(ended.unwrap_or_else(|panic| resume_unwind(panic))?)
        })
    })
}

fn watch(told: &Receiver<Moved>, progress: Option<&Py<PyAny>>) -> PyResult<()> {
    loop {
        let moved = match told.recv_timeout(signals::CHECK_INTERVAL) {
            Ok(moved) => Some(moved),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        Python::attach(|py| {
            py.check_signals()?;
            let (Some(Moved { bytes, slowest }), Some(progress)) = (moved, progress) else { return Ok(()) };
            progress.call1(py, (bytes, slowest)).map(drop)
        })?;
    }
}
