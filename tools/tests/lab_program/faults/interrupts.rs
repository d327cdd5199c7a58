//! Interrupted hosts: the others are notified, and delivered files stay.

use super::{half_way, slow};
use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Run, Site, content, names_in, one_switch, within};
use nix::sys::signal::Signal;
use std::thread;
use std::time::Duration;

#[test]
fn ctrl_c_at_the_root_tells_every_receiver() {
    let site = Site::beside("rootint", slow(5));
    for (via, signal, code) in
        [("chain", Signal::SIGINT, 130), ("cast", Signal::SIGINT, 130), ("chain", Signal::SIGTERM, 143)]
    {
        let session = half_way(&site, via, "n4");
        session.root.signal(signal);
        // A receiver that considered the root dead would report it.
        let outcome = session.end(LIMIT);
        outcome.root.assert_code(code);
        let report = outcome.root.json();
        assert_eq!((&report["exit_code"], report["bytes"].as_u64()), (&code.into(), Some(0)), "{report}");
        assert!(report["error"].as_str().is_some_and(|error| error.starts_with("interrupted")), "{report}");
        let ends = report["receivers"].as_array().expect("a list").iter();
        let ends: Vec<_> = ends.map(|one| (one["host"].as_str(), one["status"].as_str())).collect();
        let told = ["n1", "n2", "n3", "n4"].map(|host| (Some(host), Some("interrupted")));
        assert_eq!(ends, told, "all were told of by then: {report}");
        for host in ["n1", "n2", "n3", "n4"] {
            outcome.assert_nothing(host, 1);
            assert!(outcome.receiver(host).stderr.contains("interrupted"), "{}", outcome.receiver(host).stderr);
        }
    }
}

#[test]
fn ctrl_c_at_one_receiver_concerns_nobody_else() {
    let site = Site::beside("recvint", slow(5));
    for (via, signal, code) in
        [("chain", Signal::SIGINT, 130), ("cast", Signal::SIGINT, 130), ("chain", Signal::SIGTERM, 143)]
    {
        let session = half_way(&site, via, "n4");
        session.receiver("n2").signal(signal);
        let outcome = session.end(LIMIT);
        outcome.assert_nothing("n2", code);
        ["n1", "n3", "n4"].into_iter().for_each(|host| outcome.assert_delivered(host));
        outcome.root.assert_code(1);
        assert!(outcome.root.stderr.contains("1 of 4 receivers failed: n2 (interrupted)"), "{}", outcome.root.stderr);
    }
}

#[test]
fn ctrl_c_at_a_receiver_that_has_delivered_takes_nothing_back() {
    let site = Site::beside("delivered", one_switch(3));
    let bytes = content(9, 4 * MEBIBYTE);
    let (source, dest) = (site.file("source.bin", &bytes), site.path("n1"));
    let first = site.start("n1", &["recv", "-i", "eth0", "--max-wait", "10"], &dest);
    // Its buffers hold the file, but its pipe does not: the session continues while n1 has nothing
    // left to do.
    let stuck = Run::unread("n2", site.ethbcast("n2", ["recv", "-i", "eth0", "--max-wait", "10", "-"]));
    let root = site.start("n0", &["send", "--json", "-i", "eth0", "-n", "2", "--via", "cast"], &source);
    within(LIMIT, || dest.exists().then_some(())).expect("n1 delivers");
    // Reported a moment after the file has its name.
    thread::sleep(Duration::from_secs(1));
    first.signal(Signal::SIGINT);
    let first = first.end(LIMIT);
    assert!(std::fs::read(&dest).is_ok_and(|file| file == bytes), "what was verified stays");
    assert!(!first.stderr.contains("nothing was left"), "it says something else than what is: {}", first.stderr);
    stuck.signal(Signal::SIGKILL);
    let root = root.end(LIMIT);
    root.assert_code(1);
    assert!(root.stderr.contains("1 of 2 receivers failed: n2 (died)"), "n1 has not failed: {}", root.stderr);
}

#[test]
fn ctrl_c_before_anything_has_begun_leaves_nothing() {
    let site = Site::beside("early", one_switch(3));
    let (source, directory) = (site.file("source", "text"), site.directory("dest"));
    let dest = directory.join("file");
    let receiver = site.start("n1", &["recv", "-i", "eth0", "--once"], &dest);
    let root = site.start("n0", &["send", "-i", "eth0", "-n", "2"], &source);
    root.wait_for_line("n1 joined");
    root.signal(Signal::SIGINT);
    root.end(LIMIT).assert_refusal(130, &["interrupted"]);
    receiver.end(LIMIT).assert_refusal(1, &["interrupted"]);
    let receiver = site.start("n1", &["recv", "-i", "eth0"], &dest);
    receiver.wait_for_line("waiting for a sender");
    receiver.signal(Signal::SIGINT);
    receiver.end(LIMIT).assert_refusal(130, &["interrupted"]);
    assert_eq!(names_in(&directory), [""; 0]);
}
