//! Receivers that return, are too late, or are too many.

use super::{MIDDLE_BYTES, half_way, slow};
use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Site, Transfer, content, names_in, one_switch};
use nix::sys::signal::Signal;

#[test]
fn a_receiver_that_is_started_again_before_the_start_takes_part() {
    let site = Site::beside("again", one_switch(3));
    let bytes = content(3, MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    let root = site.start("n0", &["send", "--json", "-i", "eth0", "-n", "2"], &source);
    let first = site.start("n1", &["recv", "-i", "eth0"], site.path("n1"));
    root.wait_for_line("n1 joined");
    first.signal(Signal::SIGKILL);
    first.end(LIMIT).assert_code(137);
    // At once: the root itself detects that the former run is silent.
    let second = site.start("n1", &["recv", "-i", "eth0"], site.path("n1"));
    root.wait_for_lines(2, "n1 joined");
    let receivers = [second, site.start("n2", &["recv", "-i", "eth0"], site.path("n2"))];
    let root = root.end(LIMIT);
    root.assert_code(0);
    assert_eq!(root.json()["receivers"].as_array().map(Vec::len), Some(2));
    receivers.into_iter().for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    assert!(["n1", "n2"].into_iter().all(|host| std::fs::read(site.path(host)).is_ok_and(|file| file == bytes)));
}

#[test]
fn who_comes_too_late_is_told_so_and_disturbs_nobody() {
    let site = Site::beside("late", slow(4));
    let directory = site.directory("dest");
    for via in ["chain", "cast"] {
        let session = Transfer::new(&site, content(4, 16 * MEBIBYTE)).receivers(&["n1", "n2"]).via(via).start();
        session.wait_for_bytes("n2", MIDDLE_BYTES);
        let late = site.start("n3", &["recv", "-i", "eth0", "--once"], directory.join("file"));
        late.end(LIMIT).assert_refusal(3, &["is running without this host"]);
        session.end(LIMIT).assert_verified();
        assert_eq!(names_in(&directory), [""; 0]);
    }
}

#[test]
fn of_three_receivers_for_two_places_one_is_sent_away() {
    let site = Site::beside("full", slow(4));
    let bytes = content(8, 8 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    let receivers =
        ["n1", "n2", "n3"].map(|host| site.start(host, &["recv", "-i", "eth0", "--max-wait", "8"], site.path(host)));
    // All three must be present for the same invitation.
    receivers.iter().for_each(|receiver| receiver.wait_for_line("waiting for a sender"));
    let root = site.run("n0", &["send", "-i", "eth0", "-n", "2"], &source);
    root.assert_code(0);
    let (taken, away): (Vec<_>, Vec<_>) =
        receivers.into_iter().map(|receiver| receiver.end(LIMIT)).partition(|ended| ended.code() == 0);
    assert_eq!((taken.len(), away.len()), (2, 1));
    away[0].assert_code(3);
    assert!(away[0].stderr.contains("the session started with 2 of 2 wanted before"), "{}", away[0].stderr);
    assert!(root.stdout_text().contains("left out: the session started with 2 of 2"), "{}", root.stdout_text());
    let files = ["n1", "n2", "n3"].into_iter().filter_map(|host| std::fs::read(site.path(host)).ok());
    assert_eq!(files.filter(|file| *file == bytes).count(), 2);
    assert_eq!(names_in(source.parent().expect("a directory")).len(), 3, "the source and two copies");
}

#[test]
fn a_receiver_that_is_started_again_in_the_middle_has_to_wait_for_the_next_session() {
    let site = Site::beside("restart", slow(4));
    let session = half_way(&site, "chain", "n3");
    session.receiver("n2").signal(Signal::SIGKILL);
    let directory = site.directory("dest");
    let again = site.start("n2", &["recv", "-i", "eth0"], directory.join("file"));
    again.wait_for_line("is running without this host; waiting for the next session");
    let outcome = session.end(LIMIT);
    ["n1", "n3"].into_iter().for_each(|host| outcome.assert_delivered(host));
    outcome.root.assert_code(1);
    assert_ne!(outcome.status("n2"), "verified");
    outcome.forget_dead("n2");
    assert_eq!(names_in(&directory), [""; 0]);
    // The next session includes it.
    let bytes = content(5, MEBIBYTE);
    let root = site.run("n0", &["send", "-i", "eth0", "--hosts", "n2"], site.file("next.bin", &bytes));
    root.assert_code(0);
    again.end(LIMIT).assert_code(0);
    assert!(std::fs::read(directory.join("file")).is_ok_and(|file| file == bytes));
}

#[test]
fn a_receiver_that_is_started_again_under_late_is_one_host_that_has_everything() {
    let site = Site::beside("back", slow(3));
    let transfer = Transfer::new(&site, content(6, 8 * MEBIBYTE)).via("chain").send_option("--late");
    let session = transfer.send_option("--no-probe").start();
    session.wait_for_bytes("n2", MIDDLE_BYTES / 2);
    session.receiver("n1").signal(Signal::SIGKILL);
    let again = site.start("n1", &["recv", "-i", "eth0", "--once", "--max-wait", "20"], site.path("again"));
    let outcome = session.end(LIMIT);
    again.end(LIMIT).assert_code(0);
    outcome.root.assert_code(0);
    outcome.assert_delivered("n2");
    let report = outcome.root.json();
    let hosts: Vec<_> = report["receivers"].as_array().expect("a list").iter().map(|row| row["host"].clone()).collect();
    assert_eq!(hosts, ["n2", "n1"], "{report}");
    assert_eq!((outcome.status("n1"), outcome.status("n2")), ("verified".to_owned(), "verified".to_owned()));
    assert_eq!(report["left_out"], serde_json::json!([]), "{report}");
}
