//! Telling a thread of a scope to end.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag when it is dropped, also when an assertion fails: a scope waits for its threads.
#[derive(Debug)]
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
