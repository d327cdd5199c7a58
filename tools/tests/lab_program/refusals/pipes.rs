//! SOURCE and DEST that are pipes, and the processes at their other ends.

use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, PROGRAM, Run, Site, content, one_switch};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn a_reader_of_stdout_that_goes_away_fails_its_receiver() {
    let site = Site::beside("closed", one_switch(2));
    let source = site.file("source.bin", content(4, 4 * MEBIBYTE));
    let mut receive = site.command("n1", "sh");
    receive
        .args(["-c", "{ \"$0\" recv -i eth0 --max-wait 10 -; echo $? > \"$1\"; } | head -c 10"])
        .arg(PROGRAM)
        .arg(site.path("code"));
    let receiver = Run::start("n1", receive);
    let root = site.run("n0", &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"], &source);
    root.assert_code(1);
    assert!(root.stderr.contains("n1 (write-failed)"), "{}", root.stderr);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(fs::read_to_string(site.path("code")).expect("written"), "4\n");
}

#[test]
fn a_report_that_cannot_be_printed_is_an_error_and_no_panic() {
    let site = Site::beside("full", one_switch(2));
    let source = site.file("source", "text");
    let receiver = site.start("n1", &["recv", "-i", "eth0", "--max-wait", "10"], site.path("dest"));
    let mut send = site.command("n0", "sh");
    send.args(["-c", "\"$0\" send --json -n 1 -i eth0 --max-wait 10 \"$1\" > /dev/full"]).arg(PROGRAM).arg(&source);
    let root = Run::start("n0", send).end(LIMIT);
    receiver.end(LIMIT).assert_code(0);
    assert!(!root.stderr.contains("panicked"), "{}", root.stderr);
    root.assert_refusal(4, &["stdout"]);
}

#[test]
fn ctrl_c_ends_what_waits_for_a_pipe() {
    let site = Site::beside("pipes", one_switch(2));
    // A fifo without another end: even opening it blocks.
    mkfifo(&site.path("pipe"), Mode::S_IRWXU).expect("room");
    let root = site.start("n0", &["send", "-n", "1", "-i", "eth0"], site.path("pipe"));
    root.wait_until_it_hears(Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(300));
    root.signal(Signal::SIGINT);
    root.end(LIMIT).assert_refusal(130, &["interrupted"]);
    // A stdin without data.
    let mut send = site.ethbcast("n0", ["send", "-n", "1", "-i", "eth0", "-"]);
    send.stdin(Stdio::piped());
    let root = Run::start("n0", send);
    let receiver = site.start("n1", &["recv", "--once", "-i", "eth0"], site.path("dest"));
    root.wait_for_line("n1 joined");
    root.signal(Signal::SIGINT);
    root.end(LIMIT).assert_refusal(130, &["interrupted"]);
    receiver.end(LIMIT).assert_refusal(1, &["interrupted"]);
}

#[test]
fn ctrl_c_ends_a_receiver_whose_reader_has_stopped_reading() {
    let site = Site::beside("stuck", one_switch(2));
    let source = site.file("source.bin", content(5, 48 * MEBIBYTE));
    // More than the buffers on the way hold, so that the disk thread is blocked in a write.
    let receiver = Run::unread("n1", site.ethbcast("n1", ["recv", "-i", "eth0", "--max-wait", "10", "-"]));
    let root = site.start("n0", &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"], &source);
    root.wait_for_line("sending");
    std::thread::sleep(Duration::from_millis(500));
    receiver.signal(Signal::SIGINT);
    receiver.end(LIMIT).assert_refusal(130, &["interrupted"]);
    let root = root.end(LIMIT);
    root.assert_code(1);
    assert!(root.stderr.contains("n1 (interrupted)"), "{}", root.stderr);
}

#[test]
fn a_stderr_that_nobody_reads_any_more_or_yet_concerns_no_session() {
    let site = Site::beside("stderr", one_switch(3));
    let bytes = content(5, 8 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    // The sender's reader goes away after its first line; n1's pipe is full from the beginning.
    let full = site.path("full");
    mkfifo(&full, Mode::S_IRWXU).expect("room");
    let mut receive = site.command("n1", "sh");
    let stuck = "exec 3<>\"$2\"; dd if=/dev/zero bs=4k oflag=nonblock >&3 2>/dev/null; \"$0\" recv -i eth0 \"$1\" 2>&3";
    receive.args(["-c", stuck]).arg(PROGRAM).arg(site.path("n1")).arg(&full);
    let receivers = [Run::start("n1", receive), site.start("n2", &["recv", "-i", "eth0"], site.path("n2"))];
    let mut send = site.command("n0", "sh");
    let gone = "{ \"$0\" send -i eth0 -n 2 --max-wait 10 \"$1\" 2>&1 >\"$2\"; echo $? > \"$3\"; } | head -n 1";
    send.args(["-c", gone]).arg(PROGRAM).arg(&source).arg(site.path("report")).arg(site.path("code"));
    let root = Run::start("n0", send).end(LIMIT);
    assert_eq!(fs::read_to_string(site.path("code")).expect("written"), "0\n", "{}", root.stderr);
    assert!(fs::read_to_string(site.path("report")).is_ok_and(|text| text.contains("2 of 2 receivers verified")));
    for (receiver, host) in receivers.into_iter().zip(["n1", "n2"]) {
        receiver.end(LIMIT).assert_code(0);
        assert!(fs::read(site.path(host)).is_ok_and(|file| file == bytes), "{host} has other bytes");
    }
}
