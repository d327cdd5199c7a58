//! Tests that a forked child can still take the library's locks.

use crate::lock::{Condvar, Mutex};
use std::sync::Arc;

fn while_threads_wait(count: usize, meanwhile: impl FnOnce()) {
    let flag = Arc::new((Mutex::new(0), Condvar::new(), Condvar::new()));
    let wait = |_| {
        let flag = Arc::clone(&flag);
        std::thread::spawn(move || {
            let mut waiting = flag.0.lock();
            *waiting += 1;
            flag.1.notify_all();
            while *waiting <= count {
                flag.2.wait(&mut waiting);
            }
        })
    };
    let threads: Vec<_> = (0..count).map(wait).collect();
    let mut waiting = flag.0.lock();
    while *waiting < count {
        flag.1.wait(&mut waiting);
    }
    meanwhile();
    *waiting += 1;
    drop(waiting);
    flag.2.notify_all();
    threads.into_iter().for_each(|thread| thread.join().expect("it only waits"));
}

#[test]
#[expect(unsafe_code, reason = "a fork, and the end of the child")]
fn a_forked_child_waits_where_its_parents_threads_do() {
    while_threads_wait(16, || {
        // SAFETY: the child uses what the library would use there, and ends without unwinding.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: a limit of the child's life, in seconds.
            unsafe { libc::alarm(20) };
            let ended = std::panic::catch_unwind(|| while_threads_wait(32, || ()));
            // SAFETY: no destructor of the parent runs in the child.
            unsafe { libc::_exit(i32::from(ended.is_err())) };
        }
        let mut status = 0;
        // SAFETY: `status` lives here, and the child is this thread's.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child's status");
    });
}
