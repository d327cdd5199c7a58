//! A process that ends abnormally: its watcher announces the end at once.

use super::slow;
use crate::harness::{LIMIT, MEBIBYTE, Run, Session, Site, Transfer, content, within};
use nix::sys::signal::Signal;
use std::fs;
use std::thread;
use std::time::Duration;

/// Starts a transfer of 16 MiB from n0 to n1, n2 and n3, and waits for its middle.
fn half_way(site: &Site, via: &'static str) -> Session {
    let session = Transfer::new(site, content(1, 16 * MEBIBYTE)).via(via).start();
    session.wait_for_bytes("n3", 4 << 20);
    session
}

/// Returns the ids of a process's children.
fn children(run: &Run) -> Vec<u32> {
    let pid = run.pid();
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Fails unless these processes end.
#[track_caller]
fn assert_gone(pids: &[u32]) {
    let gone = within(LIMIT, || pids.iter().all(|&pid| !is_alive(pid)).then_some(()));
    assert!(gone.is_some(), "of {pids:?} some live");
}

fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_receiver_that_is_killed_is_known_at_once_and_the_others_are_served() {
    let site = Site::beside("killed", slow(4));
    for via in ["chain", "cast"] {
        let session = half_way(&site, via);
        let watcher = children(session.receiver("n2"));
        assert_eq!(watcher.len(), 1, "{watcher:?}");
        session.receiver("n2").signal(Signal::SIGKILL);
        // Without the announcement it would be reported as silent.
        session.root.wait_for_line("n2 failed: died");
        let outcome = session.end(LIMIT);
        ["n1", "n3"].into_iter().for_each(|host| outcome.assert_delivered(host));
        outcome.assert_nothing("n2", 137);
        outcome.root.assert_code(1);
        assert_eq!(outcome.status("n2"), "died");
        assert_gone(&watcher);
    }
}

#[test]
fn when_the_root_is_killed_its_receivers_end_at_once_and_say_why() {
    let site = Site::beside("headless", slow(4));
    for via in ["chain", "cast"] {
        let session = half_way(&site, via);
        let watchers: Vec<_> = ["n1", "n2", "n3"].iter().flat_map(|host| children(session.receiver(host))).collect();
        assert_eq!(watchers.len(), 3);
        let own = children(&session.root);
        session.root.signal(Signal::SIGKILL);
        let outcome = session.end(LIMIT);
        for host in ["n1", "n2", "n3"] {
            outcome.assert_nothing(host, 1);
            let said = &outcome.receiver(host).stderr;
            assert!(said.contains("the sender's process has ended"), "{host}: {said}");
        }
        assert_gone(&watchers);
        assert_gone(&own);
    }
}

#[test]
fn a_process_that_is_stopped_is_not_dead_and_an_orderly_end_needs_no_watcher() {
    let site = Site::beside("stopped", slow(4));
    for host in ["n0", "n2"] {
        let session = half_way(&site, "chain");
        let run = if host == "n0" { &session.root } else { session.receiver(host) };
        run.signal(Signal::SIGSTOP);
        thread::sleep(Duration::from_millis(800));
        assert!(!session.root.stderr().contains("failed"), "{}", session.root.stderr());
        run.signal(Signal::SIGCONT);
        let watchers: Vec<_> = ["n1", "n2", "n3"].iter().flat_map(|host| children(session.receiver(host))).collect();
        let outcome = session.end(LIMIT);
        outcome.assert_verified();
        assert_gone(&watchers);
    }
}

#[test]
fn a_watcher_takes_little_and_does_not_hear_the_terminal() {
    let site = Site::beside("little", slow(4));
    let session = half_way(&site, "cast");
    let watcher = children(&session.root)[0];
    let status = fs::read_to_string(format!("/proc/{watcher}/status")).expect("it is there");
    let own_kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux says it");
    let own_kib: u64 = own_kib.trim().trim_end_matches(" kB").parse().expect("a number");
    println!("{own_kib} KiB of its own");
    assert!(own_kib < 2048, "{own_kib} KiB");
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(watcher as i32), signal).expect("it is there");
    }
    thread::sleep(Duration::from_millis(50));
    assert!(is_alive(watcher));
    session.end(LIMIT).assert_verified();
    assert_gone(&[watcher]);
}
