//! Present and missing hosts.

use crate::harness::{Ethbcast, LIMIT, Site, names_in, one_switch};
use ethbcast_lab::LabConfig;
use nix::sys::signal::Signal;
use std::fs;
use std::time::Duration;

#[test]
fn when_nobody_is_there_both_sides_give_up_in_time() {
    let site = Site::beside("alone", one_switch(2));
    let source = site.file("source", "text");
    let sent = site.run("n0", &["send", "-n", "1", "-i", "eth0", "--max-wait", "1"], &source);
    sent.assert_refusal(3, &["0 of 1 receivers", "1 s", "ethbcast recv", "[E-NOBODY]"]);
    let received = site.run("n1", &["recv", "-i", "eth0", "--max-wait", "1"], site.path("dest"));
    received.assert_refusal(3, &["no sender was heard", "-g", "--max-wait", "[E-NOBODY]"]);
    for ended in [sent, received] {
        assert!(ended.took >= Duration::from_secs(1), "{:?}", ended.took);
    }
    // Different groups do not meet.
    let receiver = site.start("n1", &["recv", "-i", "eth0", "-g", "red", "--max-wait", "1"], site.path("dest"));
    site.run("n0", &["send", "-n", "1", "-i", "eth0", "-g", "blue", "--max-wait", "1"], &source).assert_code(3);
    receiver.end(LIMIT).assert_code(3);
    assert_eq!(names_in(source.parent().expect("a directory")), ["source"]);
}

#[test]
fn a_sender_says_that_a_receiver_on_its_own_host_will_hear_nothing() {
    let site = Site::beside("same", one_switch(1));
    let source = site.file("source", "text");
    let sender = ["send", "-n", "1", "-i", "eth0", "--max-wait", "1"];
    let alone = site.run("n0", &sender, &source);
    assert!(!alone.stderr.contains("runs on this host"), "{}", alone.stderr);
    let receiver = site.start("n0", &["recv", "-i", "eth0", "--max-wait", "20"], site.path("dest"));
    receiver.wait_for_line("waiting for a sender");
    let sent = site.run("n0", &sender, &source);
    sent.assert_refusal(3, &["0 of 1 receivers"]);
    assert!(sent.stderr.contains("a receiver of group ethbcast runs on this host, too"), "{}", sent.stderr);
    let other = site.run("n0", &[&sender[..], &["-g", "blue"]].concat(), &source);
    assert!(!other.stderr.contains("runs on this host"), "{}", other.stderr);
    receiver.signal(Signal::SIGTERM);
    receiver.end(LIMIT).assert_code(143);
}

#[test]
fn too_few_receivers_are_sent_home_unless_fewer_will_do() {
    let site = Site::beside("few", one_switch(2));
    let source = site.file("source", "text");
    let start = |options: &[&str]| site.start("n1", &[&["recv", "-i", "eth0"], options].concat(), site.path("dest"));
    let once = start(&["--once"]);
    let root = site.run("n0", &["send", "-i", "eth0", "-n", "2", "--max-wait", "1"], &source);
    root.assert_refusal(3, &["1 of 2 receivers", "n1", "--min-receivers"]);
    once.end(LIMIT).assert_refusal(1, &["1 of 2 receivers"]);
    assert_eq!(names_in(source.parent().expect("a directory")), ["source"]);
    // A receiver that stays is notified, and takes part in the next session, which needs fewer.
    let receiver = start(&[]);
    let too_few = ["send", "-i", "eth0", "--hosts", "n[1-2]", "--max-wait", "1"];
    site.run("n0", &too_few, &source).assert_refusal(3, &["1 of 2 receivers", "n1; not n2"]);
    receiver.wait_for_line("waiting for the next session");
    let root = site.run("n0", &["send", "-i", "eth0", "-n", "2", "--min-receivers", "1", "--max-wait", "1"], &source);
    root.assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(fs::read(site.path("dest")).expect("received"), b"text");
}

#[test]
fn a_receiver_whose_frames_are_too_small_is_refused_with_both_remedies() {
    let site = Site::beside("mtu", LabConfig { mtu_bytes: 9000, ..one_switch(2) });
    site.set_up("n1", "ip", &["link", "set", "eth0", "mtu", "1500"]);
    let source = site.file("source", "text");
    let receiver = site.start("n1", &["recv", "--once", "-i", "eth0", "--max-wait", "10"], site.path("dest"));
    let root = site.run("n0", &["send", "-n", "1", "-i", "eth0", "--max-wait", "2"], &source);
    receiver.end(LIMIT).assert_refusal(4, &["MTU 1500", "9000", "raise it", "--mtu 1500"]);
    root.assert_refusal(3, &["0 of 1 receivers", "n1"]);
    assert!(root.stderr.contains("--mtu 1500"), "the root's user is the one who can type it: {}", root.stderr);
}

#[test]
fn two_receivers_on_one_interface_are_told_apart() {
    let site = Site::beside("twins", one_switch(2));
    let source = site.file("source", "text");
    let root = site.start("n0", &["send", "-i", "eth0", "-n", "2", "--max-wait", "2"], &source);
    let first = site.start("n1", &["recv", "--once", "-i", "eth0"], site.path("first"));
    root.wait_for_line("n1 joined");
    let second = site.run("n1", &["recv", "--once", "-i", "eth0"], site.path("second"));
    second.assert_refusal(4, &["another receiver", "-g"]);
    root.end(LIMIT).assert_code(3);
    first.end(LIMIT).assert_code(1);
}

#[test]
fn a_receiver_takes_what_it_expects_and_says_no_to_anything_else() {
    let site = Site::beside("expect", one_switch(2));
    let (first, second) = (site.file("first", "text"), site.file("second", "other"));
    let dest = site.path("dest");
    let digest = blake3::hash(b"text").to_hex().to_string();
    let line = |expected: &str, options: &[&str]| {
        site.start("n1", &[&["recv", "-i", "eth0", "--max-wait", "20", "--expect", expected], options].concat(), &dest)
    };
    let send = |source| site.start("n0", &["send", "-i", "eth0", "-n", "1", "--max-wait", "20"], source);
    // A receiver that goes on waiting takes part in a later session.
    let (receiver, other) = (line("first", &[]), send(&second));
    receiver.wait_for_line("n0 offers second, and only first is expected here; waiting for the next session");
    other.signal(Signal::SIGTERM);
    other.end(LIMIT);
    send(&first).end(LIMIT).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    fs::remove_file(&dest).expect("it came");
    let (receiver, other) = (line("first", &["--once"]), send(&second));
    receiver.end(LIMIT).assert_refusal(3, &["only first is expected"]);
    other.signal(Signal::SIGTERM);
    other.end(LIMIT);
    let (receiver, root) = (line(&digest, &[]), send(&second));
    root.end(LIMIT).assert_code(1);
    receiver.end(LIMIT).assert_refusal(5, &["not the one that is expected"]);
    assert!(!dest.exists());
    let (receiver, root) = (line(&digest, &[]), send(&first));
    root.end(LIMIT).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
}

#[test]
fn a_sender_starts_when_another_terminal_says_so_and_is_found_from_another_namespace() {
    let site = Site::beside("start", one_switch(2));
    let source = site.file("source", "text");
    let root = site.start("n0", &["send", "-i", "eth0", "-n", "2", "--max-wait", "60"], &source);
    root.wait_for_line("waiting for 2 receivers");
    site.run("n0", &["ctl"], "start").assert_refusal(2, &["nobody has joined yet"]);
    let elsewhere = site.run("n1", &["ctl"], "start");
    elsewhere.assert_refusal(3, &["in this network namespace; in another:", &root.pid().to_string()]);
    let receiver = site.start("n1", &["recv", "-i", "eth0", "--max-wait", "20"], site.path("dest"));
    root.wait_for_line("n1 joined");
    let told = site.run("n0", &["ctl"], "start");
    told.assert_code(0);
    assert!(told.stdout_text().contains("starts with 1 receiver"), "{}", told.stdout_text());
    root.end(LIMIT).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
}

#[test]
fn a_sender_that_gives_up_leaves_those_who_wait_on_as_if_none_had_come() {
    let site = Site::beside("gaveup", one_switch(2));
    let source = site.file("source", "text");
    let receiver = site.start("n1", &["recv", "-i", "eth0", "--max-wait", "4"], site.path("dest"));
    site.run("n0", &["send", "-i", "eth0", "-n", "2", "--max-wait", "1"], &source).assert_code(3);
    receiver.end(LIMIT).assert_refusal(3, &["1 of 2 receivers"]);
    let other = site.path("other");
    for (host, line, path) in [("n0", ["send", "-n1"], &source), ("n1", ["recv", "--once"], &other)] {
        let arguments = [&line[..], &["-i", "eth0", "-g", "lab\r"]].concat();
        site.run(host, &arguments, path).assert_refusal(2, &["lab\\r", "control characters"]);
    }
}
