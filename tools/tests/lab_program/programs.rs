//! Programs beside a transfer: one whose output is sent, one that runs when all is there.

use crate::harness::{Ethbcast, LIMIT, Run, Site, names_in, one_switch};
use std::fs;

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
