//! Commands beside a transfer: one whose output is sent, one that takes the received bytes, and one
//! that runs afterwards.

use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Run, Site, content, names_in, one_switch};
use nix::sys::signal::Signal;
use std::fs;
use std::time::Duration;

fn send(site: &Site, arguments: &[&str]) -> Run {
    Run::start("n0", site.ethbcast("n0", [&["send", "-i", "eth0", "-n", "1", "--max-wait", "20"], arguments].concat()))
}

#[test]
fn a_commands_output_arrives_and_whoever_is_told_to_runs_afterwards() {
    let site = Site::beside("pipe", one_switch(2));
    let (dest, note) = (site.path("dest"), site.path("note"));
    let exec = format!("echo $ETHBCAST_BYTES $ETHBCAST_SOURCE $(cat $ETHBCAST_PATH) > {}", note.display());
    let receiver = site.start("n1", &["recv", "-i", "eth0", "--max-wait", "20", "--exec", &exec], &dest);
    let after = "test $ETHBCAST_RECEIVERS = 1 && exit 9";
    let root = send(&site, &["--pipe", "printf abc", "--size", "3", "--exec-after", after]).end(LIMIT);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(fs::read_to_string(note).expect("it ran"), "3 stdout abc\n");
    root.assert_code(4);
    assert!(root.stderr.contains("all was delivered, but") && root.stderr.contains('9'), "{}", root.stderr);
}

#[test]
fn a_command_that_fails_or_has_another_size_than_announced_fails_the_run_and_nobody_keeps_a_part() {
    let site = Site::beside("half", one_switch(2));
    let directory = site.directory("dest");
    for (arguments, words) in [
        (&["--pipe", "head -c 3000000 /dev/zero; exit 3"][..], "failed (exit status: 3)"),
        (&["--pipe", "(head -c 3000000 /dev/zero; exit 3) | cat"], "failed (exit status: 3)"),
        (&["--pipe", "printf abc", "--size", "4"], "4 bytes at first, 3 in the end"),
        (&["--pipe", "printf abc", "--size", "2"], "2 bytes at first, 3"),
    ] {
        let receiver = site.start("n1", &["recv", "--once", "-i", "eth0", "--max-wait", "20"], directory.join("file"));
        let root = send(&site, arguments).end(LIMIT);
        root.assert_refusal(4, &[words]);
        assert_ne!(receiver.end(LIMIT).code(), 0);
        assert_eq!(names_in(&directory), [""; 0]);
    }
    send(&site, &["--size", "3", "/etc/hostname"]).end(LIMIT).assert_refusal(2, &["--size", "leave it out"]);
}

/// Starts a receiver that feeds a command.
fn feed(site: &Site, host: &str, command: &str) -> Run {
    Run::start(host, site.ethbcast(host, ["recv", "-i", "eth0", "--max-wait", "20", "--pipe", command]))
}

#[test]
fn commands_take_what_comes_and_one_that_fails_fails_its_receiver_with_its_own_code() {
    let site = Site::beside("feed", one_switch(6));
    let bytes = content(11, 3 * MEBIBYTE + 5);
    let (source, copy, said) = (site.file("image", &bytes), site.path("copy"), site.path("said"));
    let good = feed(&site, "n1", &format!("echo of $ETHBCAST_SOURCE; dd of={}", copy.display()));
    let early = feed(&site, "n2", "head -c 10 > /dev/null");
    let failing = feed(&site, "n3", &format!("cat > /dev/null; echo end > {}; exit 7", said.display()));
    let gone = feed(&site, "n4", "exit 9");
    let signalled = feed(&site, "n5", "head -c 1000000 > /dev/null; kill -KILL $$");
    let root = site.run("n0", &["send", "-i", "eth0", "-n", "5", "--max-wait", "20", "--via", "chain"], &source);
    let good = good.end(LIMIT);
    good.assert_code(0);
    assert!(good.stderr.contains("of image\n"), "{}", good.stderr);
    assert!(good.stdout_text().starts_with("image: 3.00 MiB verified"), "{}", good.stdout_text());
    assert!(fs::read(copy).is_ok_and(|copy| copy == bytes));
    early.end(LIMIT).assert_refusal(4, &["`head -c 10 > /dev/null` ended before it had taken all", "cat > /dev/null"]);
    failing.end(LIMIT).assert_refusal(7, &["failed (exit status: 7)"]);
    assert!(said.exists(), "it saw the end");
    gone.end(LIMIT).assert_refusal(9, &["`exit 9` failed (exit status: 9)"]);
    signalled.end(LIMIT).assert_refusal(137, &["signal: 9"]);
    root.assert_code(1);
    for words in ["1 of 5 receivers verified", "n2 ", "n3 ", "exit status: 7"] {
        assert!(root.stdout_text().contains(words) || root.stderr.contains(words), "{words}: {root:?}");
    }
}

#[test]
fn a_command_that_stands_still_or_loses_its_sender_is_ended_and_never_sees_half_of_it_as_all() {
    let site = Site::beside("halves", one_switch(4));
    let source = site.file("image", content(12, 24 * MEBIBYTE));
    let notes = ["n1", "n2", "n3"].map(|host| site.path(host));
    let told = |at: usize| format!("; echo ended > {}", notes[at].display());
    let still = feed(&site, "n1", &format!("sleep 1000 {}", told(0)));
    let interrupted = feed(&site, "n2", &format!("head -c 1000 > /dev/null; sleep 1000 {}", told(1)));
    let good = feed(&site, "n3", &format!("test $(wc -c) = {} {}", 24 * MEBIBYTE, told(2)));
    let send = ["send", "-i", "eth0", "-n", "3", "--via", "chain", "--stall", "1", "--patience", "2"];
    let root = site.start("n0", &send, &source);
    root.wait_for_line("sending");
    std::thread::sleep(Duration::from_millis(500));
    interrupted.signal(Signal::SIGINT);
    interrupted.end(LIMIT).assert_refusal(130, &["interrupted", "the command was ended"]);
    good.end(LIMIT).assert_code(0);
    still.end(LIMIT).assert_refusal(1, &["went on without this host", "sleep 1000", "had not taken all"]);
    let root = root.end(LIMIT);
    root.assert_code(1);
    assert!(root.stderr.contains("n1 (stalled)"), "{}", root.stderr);
    assert_eq!(notes.map(|note| note.exists()), [false, false, true]);
}

#[test]
fn a_command_takes_no_directory_and_has_no_dest_beside_it() {
    let site = Site::beside("nofeed", one_switch(2));
    let source = site.directory("tree");
    fs::write(source.join("file"), "text").expect("room");
    let receiver = feed(&site, "n1", "tar x");
    site.run("n0", &["send", "-i", "eth0", "-n", "1"], &source).assert_code(1);
    receiver.end(LIMIT).assert_refusal(4, &["a directory comes", "tar c DIR"]);
    let usage = |arguments: &[&str]| Run::start("n1", site.ethbcast("n1", [&["recv"], arguments].concat())).end(LIMIT);
    usage(&["--pipe", "tar x", "dest"]).assert_code(2);
    usage(&["--pipe", "tar x", "--verify", "read"]).assert_refusal(2, &["a command", "cannot be read back"]);
}
