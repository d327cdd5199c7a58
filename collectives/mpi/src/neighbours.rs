//! Detection of dead MPI processes on this host, so that no rank waits for them.

use crate::dynamic::ContinueCallback;
use ethbcast_transport::lock::Mutex;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessId {
    pub number: u32,
    /// PID namespace; 0 if unknown.
    pub namespace: u64,
}

impl ProcessId {
    pub fn own() -> ProcessId {
        let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |it| it.ino());
        ProcessId {
            number: std::process::id(),
            namespace,
        }
    }
}

/// Descriptors that become readable when their processes end. Communicators share most of them.
static KNOWN: Mutex<BTreeMap<u32, Arc<OwnedFd>>> = Mutex::new(BTreeMap::new());

#[derive(Debug, Default)]
pub struct Neighbours(Vec<Arc<OwnedFd>>);

impl Neighbours {
    /// Watches these processes of this host; one that has already ended is an error. Processes of
    /// other containers are not visible.
    pub fn of(processes: impl IntoIterator<Item = ProcessId>) -> Result<Neighbours, String> {
        let own = ProcessId::own();
        let seen = processes.into_iter().filter(|other| {
            other.namespace == own.namespace && own.namespace != 0 && other.number != own.number
        });
        seen.map(|other| watched(other.number))
            .collect::<Result<Vec<_>, _>>()
            .map(Neighbours)
    }

    pub fn live(&self) -> bool {
        let mut asked: Vec<_> = self
            .0
            .iter()
            .map(|one| libc::pollfd {
                fd: one.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        // SAFETY: `asked` has that many entries.
        let ended = unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, 0) };
        ended <= 0
    }
}

fn watched(number: u32) -> Result<Arc<OwnedFd>, String> {
    let mut known = KNOWN.lock();
    if let Some(found) = known.get(&number) {
        return Ok(Arc::clone(found));
    }
    // SAFETY: the system call takes two numbers and returns a new descriptor without an owner.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) };
    let Ok(opened @ 0..) = c_int::try_from(opened) else {
        return Err(format!(
            "process {number} of this host: {}",
            io::Error::last_os_error()
        ));
    };
    // SAFETY: as above.
    let opened = Arc::new(unsafe { OwnedFd::from_raw_fd(opened) });
    known.insert(number, Arc::clone(&opened));
    Ok(opened)
}

/// Periodic liveness check while a call on this host waits.
pub struct Watch<'a> {
    neighbours: &'a Neighbours,
    looked: std::cell::Cell<Instant>,
}

impl<'a> Watch<'a> {
    pub fn on(neighbours: &'a Neighbours) -> Watch<'a> {
        Watch {
            neighbours,
            looked: std::cell::Cell::new(Instant::now()),
        }
    }

    pub fn arguments(&self) -> (ContinueCallback, *const c_void) {
        (must_continue, std::ptr::from_ref(self).cast())
    }

    fn must_continue(&self) -> bool {
        let now = Instant::now();
        if now.duration_since(self.looked.get()) < LOOK_EVERY {
            return true;
        }
        self.looked.set(now);
        self.neighbours.live()
    }
}

extern "C" fn must_continue(state: *const c_void) -> c_int {
    // SAFETY: it is the watch of the calling function, which waits for the reply.
    let watch = unsafe { &*state.cast::<Watch>() };
    c_int::from(watch.must_continue())
}

#[test]
fn a_process_that_ends_is_noticed_and_one_that_is_not_seen_does_no_harm() {
    let mut child = std::process::Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("cat");
    let id = ProcessId {
        number: child.id(),
        ..ProcessId::own()
    };
    let neighbours = Neighbours::of([
        id,
        ProcessId::own(),
        ProcessId {
            number: 1,
            namespace: 7,
        },
    ])
    .expect("it runs");
    assert_eq!(neighbours.0.len(), 1);
    assert!(neighbours.live());
    drop(child.stdin.take());
    child.wait().expect("it ends");
    assert!(!neighbours.live());
    let gone = ProcessId {
        number: i32::MAX as u32,
        ..ProcessId::own()
    };
    assert!(Neighbours::of([gone]).is_err());
}
