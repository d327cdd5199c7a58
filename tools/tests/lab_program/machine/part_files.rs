//! Files left by a receiver that is killed, interrupted twice, or out of space: nothing at DEST,
//! and nothing at all with `--no-resume`.

use super::slow;
use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, PROGRAM, Session, Site, Transfer, content, names_in, shown_in};
use nix::sys::signal::Signal;
use std::fs;
use std::process::Command;

/// Starts a transfer of 16 MiB from n0 to n1 and n2, and waits for its middle.
fn half_way(site: &Site) -> Session {
    let transfer = Transfer::new(site, content(1, 16 * MEBIBYTE)).via("chain").receive_option("--no-resume");
    let session = transfer.start();
    session.wait_for_bytes("n2", 4 << 20);
    session
}

#[test]
fn a_receiver_that_is_killed_or_interrupted_twice_leaves_nothing() {
    let site = Site::beside("nothing", slow(3));
    let session = half_way(&site);
    session.receiver("n2").signal(Signal::SIGKILL);
    session.receiver("n1").signal(Signal::SIGINT);
    session.receiver("n1").signal(Signal::SIGTERM);
    let outcome = session.end(LIMIT);
    outcome.assert_nothing("n2", 137);
    // The kernel chooses which of the two comes first.
    let code = outcome.receiver("n1").code();
    assert!([130, 143].contains(&code), "{code}");
    outcome.assert_nothing("n1", code);
    ["n1", "n2"].into_iter().for_each(|host| outcome.assert_nothing_hidden(host));
}

#[test]
fn what_dead_receivers_left_is_removed_by_the_next_and_what_others_write_is_not() {
    let site = Site::beside("stale", slow(2));
    let directory = site.directory("dest");
    fs::write(directory.join(".ethbcast-a1B2c3.part"), "half").expect("room");
    let beside = directory.join(".ethbcast-f0O1x2.part");
    let held = fs::File::create(&beside).expect("room");
    let held = nix::fcntl::Flock::lock(held, nix::fcntl::FlockArg::LockExclusive).expect("nobody else's");
    let receiver = site.run("n1", &["recv", "-i", "eth0", "--max-wait", "0.2"], directory.join("file"));
    receiver.assert_refusal(3, &["no sender was heard"]);
    assert_eq!(names_in(&directory), [".ethbcast-f0O1x2.part"]);
    drop(held);
    site.run("n1", &["recv", "-i", "eth0", "--max-wait", "0.2"], directory.join("file")).assert_code(3);
    assert_eq!(names_in(&directory), [""; 0]);
}

#[test]
fn a_limit_on_the_size_of_files_is_a_reason_and_not_a_death() {
    let site = Site::beside("limit", slow(2));
    let (source, directory) = (site.file("source.bin", content(3, 4 * MEBIBYTE)), site.directory("dest"));
    let root = site.start("n0", &["send", "-i", "eth0", "-n", "1"], &source);
    let mut limited: Command = site.command("n1", "sh");
    limited.args(["-c", "ulimit -f 1024; exec \"$0\" recv --no-resume -i eth0 --max-wait 10 \"$1\"", PROGRAM]);
    limited.arg(directory.join("file"));
    let receiver = crate::harness::Run::start("n1", limited).end(LIMIT);
    receiver.assert_refusal(4, &["cannot write", "ulimit -f"]);
    assert_eq!(shown_in(&directory), [""; 0]);
    let root = root.end(LIMIT);
    root.assert_code(1);
    assert!(root.stderr.contains("n1 (no-space)"), "{}", root.stderr);
}
