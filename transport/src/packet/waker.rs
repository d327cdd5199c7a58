//! Lets other threads (disk, application) interrupt the driver's wait.

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A handle that wakes the loop it was given to; clones wake the same loop.
#[derive(Clone, Debug)]
pub struct Waker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    event: EventFd,
    /// Set from the first `wake` until the loop has noticed: a busy loop costs its wakers one system call, not one each.
    pending: AtomicBool,
}

impl Waker {
    /// Makes a waker for one loop.
    ///
    /// # Errors
    ///
    /// The kernel's error if the process or the system has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Waker { shared: Arc::new(Shared { event, pending: AtomicBool::new(false) }) })
    }

    /// Makes the loop run its turn soon: at once if it waits, else after its current turn; several calls may cause one turn.
    ///
    /// What the caller wrote before is visible to that turn.
    pub fn wake(&self) {
        if self.shared.pending.swap(true, Ordering::AcqRel) {
            return;
        }
        while let Err(Errno::EINTR) = self.shared.event.write(1) {}
    }

    /// The descriptor that becomes readable by [`wake`](Self::wake).
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }

    /// Whether there was a wake that has not been acknowledged.
    pub(super) fn is_pending(&self) -> bool {
        self.shared.pending.load(Ordering::Acquire)
    }

    /// Takes note of all wakes so far; the caller then runs its turn.
    ///
    /// The event is emptied before `pending` is cleared: a wake in between is swallowed, but its cause is seen by the turn that
    /// follows. The other order could leave `pending` set over an empty event, and no wake would get through any more.
    pub(super) fn acknowledge(&self) {
        // EAGAIN only says that the event is empty already.
        let _ = self.shared.event.read();
        self.shared.pending.swap(false, Ordering::AcqRel);
    }
}
