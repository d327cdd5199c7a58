//! Stopping of threads in a scope.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag on drop, also when an assertion fails: a scope waits for its threads.
#[derive(Debug)]
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
