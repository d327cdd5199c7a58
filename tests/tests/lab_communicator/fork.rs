//! Tests of a process forked from an MPI-like rank: each of its calls is refused.

use super::{join, options};
use ethbcast_collectives::communicator::{Communicator, Error};
use ethbcast_collectives::session::application::{Collected, Receiving};
use ethbcast_collectives::session::{self, RecvOptions, RunOptions, Session, WireOptions};
use ethbcast_tests::lab::{LIMIT, Site, content, one_switch};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, alarm, fork};
use std::thread;
use std::time::Duration;

/// Forks this process; returns whether it is the child, which a panic ends with 98.
#[expect(unsafe_code, reason = "a fork of a process with threads")]
fn fork_here() -> Option<Pid> {
    // SAFETY: the child uses what the library has to make usable there, and ends by `_exit`.
    if let ForkResult::Parent { child } = unsafe { fork() }.expect("there is room for a process") {
        return Some(child);
    }
    alarm::set(LIMIT.as_secs() as u32);
    std::panic::set_hook(Box::new(|_| end_child(98)));
    None
}

#[expect(unsafe_code, reason = "no destructor of the parent runs in the child")]
fn end_child(code: i32) -> ! {
    // SAFETY: it only ends this process.
    unsafe { nix::libc::_exit(code) }
}

/// Ends with 0 if every call is refused, and the drops do nothing.
fn child_of_a_rank(mut all: Communicator, mut session: Session) -> ! {
    let (block, mut buffer, mut blocks, second) = ([0; 8], [0; 8], [0; 16], Duration::from_secs(1));
    let refusals = [
        all.broadcast(0, &mut buffer).err(),
        all.barrier().err(),
        all.scatter(0, &blocks, &mut buffer).err(),
        all.gather(0, &block, &mut blocks).err(),
        all.allgather(&block, &mut blocks).err(),
        all.send(1, 1, &block).err(),
        all.send_within(1, 1, &block, second).err(),
        all.try_send(1, 1, &block).err(),
        all.recv(1, 1, &mut buffer).err(),
        all.recv_within(1, 1, &mut buffer, second).err(),
        all.try_recv(1, 1, &mut buffer).err(),
        all.sendrecv(1, &block, 1, &mut buffer, 1).err(),
        all.choice(0, 8).err(),
        all.stats().err(),
        all.memory().err(),
        all.counters().err(),
        all.has_left().err(),
        all.leave_in(second).err(),
        all.leave().err(),
        all.shrink().err(),
    ];
    let at = refusals
        .iter()
        .position(|error| !matches!(error, Some(Error::Forked(_))));
    let mut receiving = Receiving::new(Collected::default());
    let received = session.run_receiver(&RecvOptions::new(), &mut receiving);
    let is_refused = matches!(received, Err(session::Error::Forked(_))) && !all.is_whole();
    drop((all, session));
    end_child(at.map_or(if is_refused { 0 } else { 99 }, |at| at as i32 + 1))
}

#[test]
fn in_a_forked_child_every_call_is_refused_and_its_parent_goes_on() {
    let site = Site::beside("calls_fork", one_switch(2));
    let (options, points) = (options(), 20);
    thread::scope(|scope| {
        scope.spawn(|| {
            let all = join(&site, "n1", 2, &options).expect("n0 comes");
            for point in 0..points {
                let mut bytes = vec![0; 3000];
                all.broadcast(0, &mut bytes).expect("the parent calls");
                assert!(bytes == content(point, 3000), "point {point}");
                all.barrier().expect("the parent calls");
            }
        });
        let all = join(&site, "n0", 2, &options).expect("n1 comes");
        let wire = WireOptions {
            interface: Some("eth0".into()),
            host: Some("n0".into()),
            ..WireOptions::default()
        };
        let waiting = RecvOptions {
            wire,
            ..RecvOptions::new()
        };
        let opened = || Session::open_receiver("forked", &waiting).expect("a port");
        let mut session = site
            .lab()
            .run_on("n0", opened)
            .expect("the lab has this host");
        for point in 0..points {
            let fork_at = |place: u64| point % 3 == place;
            let (mut bytes, mut children) = (content(point, 3000), Vec::new());
            // Before a broadcast, between it and a barrier, or behind both.
            for place in 0..3 {
                if fork_at(place) {
                    match fork_here() {
                        Some(child) => children.push(child),
                        None => child_of_a_rank(all, session),
                    }
                }
                match place {
                    0 => all
                        .broadcast(0, &mut bytes)
                        .expect("no child is in the way"),
                    1 => all.barrier().expect("no child is in the way"),
                    _ => {}
                }
            }
            for child in children {
                let ended = waitpid(child, None).expect("it is a child of this process");
                assert_eq!(
                    ended,
                    WaitStatus::Exited(child, 0),
                    "point {point}: the number of the call that went through"
                );
            }
        }
        // The port is open and whole for its parent.
        let limit = RunOptions {
            time_limit: Some(Duration::from_millis(50)),
            ..RunOptions::default()
        };
        let ended = session.run_receiver(
            &RecvOptions {
                run: limit,
                ..waiting
            },
            &mut Receiving::new(Collected::default()),
        );
        assert!(matches!(ended, Err(session::Error::TimedOut)), "{ended:?}");
    });
}
