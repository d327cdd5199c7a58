//! Output on stderr, in a process that does not expect any from this library.

use std::io::Write;

/// Writes to stderr, whatever its state. A launcher that has lost a rank of this host may have
/// closed its pipe; the signal would end an unprepared process.
pub fn print(text: &str) {
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the sets are written before use; only this thread's mask is changed, and restored.
    unsafe {
        let (mut broken, mut before, mut pending) = std::mem::zeroed::<[libc::sigset_t; 3]>().into();
        libc::sigemptyset(&mut broken);
        libc::sigaddset(&mut broken, libc::SIGPIPE);
        libc::sigpending(&mut pending);
        let was_pending = libc::sigismember(&pending, libc::SIGPIPE) == 1;
        libc::pthread_sigmask(libc::SIG_BLOCK, &broken, &mut before);
        // A failure cannot be reported anywhere.
        drop(std::io::stderr().write_all(text.as_bytes()));
        if !was_pending {
            libc::sigtimedwait(&broken, std::ptr::null_mut(), &none);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
    }
}

pub fn print_line(text: impl std::fmt::Display) {
    print(&format!("ethbcast-mpi: {text}\n"));
}
