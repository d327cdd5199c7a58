//! Words on stderr, in a process that expects none of ours.

use std::io::Write;

/// Writes to stderr, whatever has become of it: a launcher that has lost a rank of this host may have closed its pipe,
/// which ends a process that does not expect it.
pub fn print(text: &str) {
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the sets are there to be filled, and then valid; only this thread's mask is changed, and changed back.
    unsafe {
        let (mut broken, mut before, mut pending) = std::mem::zeroed::<[libc::sigset_t; 3]>().into();
        libc::sigemptyset(&mut broken);
        libc::sigaddset(&mut broken, libc::SIGPIPE);
        libc::sigpending(&mut pending);
        let was_pending = libc::sigismember(&pending, libc::SIGPIPE) == 1;
        libc::pthread_sigmask(libc::SIG_BLOCK, &broken, &mut before);
        // There is nobody to tell that it failed.
        drop(std::io::stderr().write_all(text.as_bytes()));
        if !was_pending {
            libc::sigtimedwait(&broken, std::ptr::null_mut(), &none);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
    }
}

/// Writes a line that says whose it is.
pub fn say(text: impl std::fmt::Display) {
    print(&format!("ethbcast-mpi: {text}\n"));
}
