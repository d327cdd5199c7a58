//! SOURCE that cannot be read.

use super::nobody::Nobody;
use crate::harness::{Ethbcast, LIMIT, Site, names_in, one_switch};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

#[test]
fn a_source_that_cannot_be_read_is_refused_before_anybody_is_waited_for() {
    let site = Site::beside("source", one_switch(2));
    let missing = site.path("missing");
    site.run("n0", &["send", "-n", "1", "-i", "eth0"], &missing)
        .assert_refusal(4, &["cannot read SOURCE", "missing", "No such file"]);
    let secret = site.file("secret", "text");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let unreadable =
        Nobody::new().start(&site, "n0", "-all,+net_raw", &["send", "-n", "1", "-i", "eth0"], &secret).end(LIMIT);
    unreadable.assert_refusal(4, &["cannot read SOURCE", "secret", "ermission denied"]);
    let directory = site.directory("directory");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).expect("it is ours");
    let closed =
        Nobody::new().start(&site, "n0", "-all,+net_raw", &["send", "-n", "1", "-i", "eth0"], &directory).end(LIMIT);
    closed.assert_refusal(4, &["cannot read SOURCE", "directory", "ermission denied", "--exclude"]);
}

#[test]
fn what_a_single_file_would_lose_is_refused_and_not_left_out_silently() {
    let site = Site::beside("losing", one_switch(2));
    let file = site.file("file", "text");
    for option in ["--owner", "--numeric"] {
        let options = ["send", "-n", "1", "-i", "eth0", option];
        site.run("n0", &options, &file).assert_refusal(2, &["file", "its owner", option, "--exclude"]);
    }
}

#[test]
fn a_source_that_breaks_while_it_is_read_fails_everybody_and_leaves_nothing() {
    let site = Site::beside("broken", one_switch(2));
    let directory = site.directory("dest");
    let receiver = site.start("n1", &["recv", "-i", "eth0", "--max-wait", "10"], directory.join("file"));
    // A file that can be opened, and whose first read fails.
    let root = site.run("n0", &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"], "/proc/self/mem");
    root.assert_refusal(4, &["reading SOURCE", "/proc/self/mem", "failed"]);
    receiver.end(LIMIT).assert_refusal(1, &["reading SOURCE"]);
    assert_eq!(names_in(&directory), [""; 0]);
}

#[test]
fn what_would_arrive_as_less_or_never_come_is_said_before_anybody_is_waited_for() {
    let site = Site::beside("less", one_switch(1));
    let send = |options: &[&str], source: &Path| {
        site.run("n0", &[&["send", "-n", "1", "-i", "eth0", "--max-wait", "1"], options].concat(), source)
    };
    let (hub, other) = (site.directory("hub"), site.directory("other"));
    fs::write(other.join("model"), "model").expect("room");
    std::os::unix::fs::symlink("../other/model", hub.join("model")).expect("made");
    let sent = send(&[], &hub);
    sent.assert_code(3);
    let words = "1 link leads out of SOURCE and is sent as it is, the first is model -> ../other/model: --follow";
    assert!(sent.stderr.contains(words), "{}", sent.stderr);
    let sent = send(&["--follow", "--one-file-system"], &hub);
    sent.assert_code(3);
    assert!(!sent.stderr.contains("leads out"), "{}", sent.stderr);
    // A program that may have a packet socket, by itself and in a directory.
    let capable = site.file("other/capable", "program");
    let set = "import os, struct, sys; \
               os.setxattr(sys.argv[1], 'security.capability', struct.pack('<5I', 1 << 25, 1 << 13, 0, 0, 0))";
    assert!(Command::new("python3").args(["-c", set]).arg(&capable).status().expect("there").success());
    for (source, words) in [
        (&capable, "SOURCE has capabilities or access lists (ACLs), which a single file is sent without"),
        (&other, "1 file or directory has capabilities or access lists (ACLs), which are sent with --xattrs alone"),
    ] {
        let sent = send(&[], source);
        assert!(sent.stderr.contains(words), "{}", sent.stderr);
    }
    let odd = site.file("two\nlines", "text");
    send(&[], &odd).assert_refusal(2, &["two\\nlines", "control characters", "--as NAME"]);
    send(&["--as", "name"], &odd).assert_code(3);
    let fifo = site.path("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("made");
    send(&[], &fifo).assert_refusal(4, &["fifo", "nobody has opened it for writing within 1 s"]);
}
