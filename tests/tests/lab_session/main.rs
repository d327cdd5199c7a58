//! Sessions of programs on real frames: the library's `send` and `receive` from threads in network
//! namespaces.

mod cancellation;
mod contents;
mod failures;
mod programs;
mod transfers;

use ethbcast_collectives::session::{Error, ReceiveReport, RecvOptions, SendOptions, SendReport, Session, WireOptions};
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::{LIMIT, Site, within};
use std::fs;
use std::io::{Read, Write};
use std::ops::Deref;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

type Sending<'scope> = ScopedJoinHandle<'scope, Result<SendReport, Error>>;
type Receiving<'scope> = ScopedJoinHandle<'scope, Result<ReceiveReport, Error>>;

fn wire(host: &str) -> WireOptions {
    WireOptions { interface: Some("eth0".to_owned()), host: Some(host.to_owned()), ..WireOptions::default() }
}

fn sender() -> SendOptions {
    SendOptions { wire: wire("n0"), max_wait: Some(LIMIT), ..SendOptions::new().receivers(1) }
}

fn receiver() -> RecvOptions {
    RecvOptions { wire: wire("n1"), max_wait: Some(LIMIT), once: true, ..RecvOptions::new() }
}

/// A lab for sessions of this process. It excludes other sessions, because leftovers are found by
/// thread name.
struct Own {
    site: Site,
    _turn: MutexGuard<'static, ()>,
}

impl Own {
    fn up(story: &str, config: LabConfig) -> Own {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Own { site: Site::beside(story, config), _turn: turn }
    }
}

impl Deref for Own {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

fn send<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    (site, host): (&'env Site, &'env str),
    reader: impl Read + Send + 'scope,
    options: SendOptions,
) -> Sending<'scope> {
    let work = move || Session::send("test", reader, &SendOptions { wire: wire(host), ..options });
    scope.spawn(move || site.lab().run_on(host, work).expect("the lab has this host"))
}

fn receive<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    (site, host): (&'env Site, &'env str),
    writer: impl Write + Send + 'scope,
    options: RecvOptions,
) -> Receiving<'scope> {
    let work = move || Session::receive("test", writer, &RecvOptions { wire: wire(host), ..options });
    scope.spawn(move || site.lab().run_on(host, work).expect("the lab has this host"))
}

/// Panics if a session has left a thread or a socket behind. No other session may be running.
fn assert_nothing_left(site: &Site, hosts: &[&str]) {
    // A thread that has ended may still be listed for a moment.
    let names = || {
        let tasks = fs::read_dir("/proc/self/task").expect("our threads");
        let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
        let names = tasks.filter_map(|task| name(task.ok()?));
        names.filter(|name| ["reader", "writer"].contains(&name.trim())).collect::<Vec<_>>()
    };
    within(LIMIT, || names().is_empty().then_some(())).unwrap_or_else(|| panic!("threads are left: {:?}", names()));
    for host in hosts {
        let read = || fs::read_to_string("/proc/thread-self/net/packet").expect("the namespace's packet sockets");
        let sockets = || site.lab().run_on(host, read).expect("the lab has this host");
        let closed = within(LIMIT, || (sockets().lines().count() == 1).then_some(()));
        assert!(closed.is_some(), "{host} has packet sockets left:\n{}", sockets());
    }
}

/// A gate for a reader or writer: reports its arrival, and blocks until the keeper opens it.
struct Gate {
    reached: Sender<()>,
    go_on: Receiver<()>,
}

/// The other side of a [`Gate`]; dropping it opens the gate for good.
struct Keeper {
    reached: Receiver<()>,
    go_on: Sender<()>,
}

impl Gate {
    fn new() -> (Gate, Keeper) {
        let ((reached, at_gate), (go_on, told)) = (channel(), channel());
        (Gate { reached, go_on: told }, Keeper { reached: at_gate, go_on })
    }

    fn pass(&self) {
        // Without a keeper the gate is open.
        if self.reached.send(()).is_ok() {
            // Bounded, in case the keeper is blocked in a scope that waits for this thread.
            self.go_on.recv_timeout(LIMIT).unwrap_or_default();
        }
    }
}

impl Keeper {
    fn wait(&self) {
        self.reached.recv_timeout(LIMIT).expect("somebody comes to the gate");
    }

    fn open(&self) {
        self.go_on.send(()).expect("somebody stands at the gate");
    }
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    within(LIMIT, || condition().then_some(())).unwrap_or_else(|| panic!("never: {what}"));
}
