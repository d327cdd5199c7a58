//! The commands of `ethbcast lab`.

use crate::harness::{
    Ended, LIMIT, MEBIBYTE, PROGRAM, content, ended_here, here, lab_name, names_in, namespaces, require_root,
};
use ethbcast_lab::Lab;
use ethbcast_planning::topology::Topology;
use nix::sys::signal::Signal;
use std::fs;

/// A lab brought up by the program itself, and removed on drop.
struct ToolLab {
    name: String,
}

impl ToolLab {
    fn up(story: &str, arguments: &[&str]) -> ToolLab {
        require_root();
        let lab = ToolLab { name: lab_name(story) };
        let up = ended_here(&[&["lab", "up", "--lab", &lab.name], arguments].concat());
        up.assert_code(0);
        assert!(up.stderr.contains("is up") && up.stderr.contains("lab exec"), "{}", up.stderr);
        assert_eq!(up.stdout_text(), "");
        lab
    }

    fn run(&self, command: &str, arguments: &[&str]) -> Ended {
        ended_here(&[&["lab", command, "--lab", &self.name], arguments].concat())
    }
}

impl Drop for ToolLab {
    fn drop(&mut self) {
        let removed = Lab::remove(&self.name);
        assert!(std::thread::panicking() || removed.is_ok(), "{removed:?}");
    }
}

#[test]
fn a_lab_lives_from_up_to_down() {
    let lab = ToolLab::up("life", &["3", "--mtu", "2000", "--rate", "100mbit", "--loss", "0.01"]);
    let prefix = format!("ethbcast-{}-", lab.name);
    assert_eq!(namespaces(&prefix).len(), 4, "three hosts and the switches");
    assert!(ended_here(&["lab", "list"]).stdout_text().lines().any(|line| line == format!("{}: n[0-2]", lab.name)));
    lab.run("up", &["3"]).assert_refusal(2, &["already up", "lab down"]);
    assert_eq!(lab.run("exec", &["n1", "--", "cat", "/sys/class/net/eth0/mtu"]).stdout_text(), "2000\n");
    assert_eq!(lab.run("exec", &["n1", "--", "sh", "-c", "echo $ETHBCAST_HOST"]).stdout_text(), "n1\n");
    lab.run("exec", &["n1", "--", "sh", "-c", "exit 7"]).assert_code(7);
    lab.run("exec", &["n1", "--", "sh", "-c", "kill -9 $$"]).assert_code(137);
    lab.run("exec", &["n9", "--", "true"]).assert_refusal(2, &["no host `n9`", "n0, n1, n2"]);
    let sleeper =
        here(&["lab", "exec", "--lab", &lab.name, "n2", "--", "sh", "-c", "echo inside >&2; exec sleep 1000"]);
    sleeper.wait_for_line("inside");
    let down = lab.run("down", &[]);
    down.assert_code(0);
    assert!(down.stderr.contains("is down"), "{}", down.stderr);
    assert_ne!(sleeper.end(LIMIT).code(), 0, "what ran in the lab has ended with it");
    assert_eq!(namespaces(&prefix), [""; 0]);
    let again = lab.run("down", &[]);
    again.assert_code(0);
    assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
    lab.run("exec", &["n1", "--", "true"]).assert_refusal(2, &[&lab.name, "lab up"]);
}

#[test]
fn each_runs_a_command_everywhere_and_says_where_it_failed() {
    let lab = ToolLab::up("each", &["3"]);
    let said = |arguments: &[&str]| {
        let ended = lab.run("each", arguments);
        ended.assert_code(0);
        let mut lines: Vec<_> = ended.stdout_text().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(said(&["--", "echo", "host {}"]), ["host n0", "host n1", "host n2"]);
    assert_eq!(said(&["--except", "n0", "--except", "n2", "--", "echo", "{}"]), ["n1"]);
    let two_lines = ["-l", "--except", "n0", "--", "sh", "-c", "echo one; echo {}"];
    assert_eq!(said(&two_lines), ["n1: n1", "n1: one", "n2: n2", "n2: one"]);
    let failed = lab.run("each", &["--", "sh", "-c", "test {} != n1 || exit 3"]);
    failed.assert_refusal(1, &["failed on n1 (exit 3)"]);
    let sleepers =
        here(&["lab", "each", "--lab", &lab.name, "-l", "--", "sh", "-c", "echo inside >&2; exec sleep 1000"]);
    ["n0: inside", "n1: inside", "n2: inside"].iter().for_each(|line| sleepers.wait_for_line(line));
    sleepers.signal(Signal::SIGTERM);
    sleepers.end(LIMIT).assert_refusal(143, &["what ran on the hosts has ended"]);
    assert!(lab.run("down", &[]).stderr.contains("0 processes ended"));
}

#[test]
fn a_file_travels_through_the_lab_by_its_commands_alone() {
    let lab = ToolLab::up("travel", &["fig9-1"]);
    let directory = crate::harness::scratch();
    let source = directory.path().join("source.bin");
    fs::write(&source, content(9, MEBIBYTE)).expect("written");
    let source = source.to_str().expect("UTF-8");
    let dest = directory.path().join("{}.bin");
    let dest = dest.to_str().expect("UTF-8");
    let each = [
        "lab",
        "each",
        "--lab",
        &lab.name,
        "--except",
        "n0",
        "--",
        PROGRAM,
        "recv",
        "--quiet",
        "--max-wait",
        "10",
        dest,
    ];
    let receivers = here(&each);
    let sent =
        lab.run("exec", &["n0", "--", PROGRAM, "send", "-n", "15", "--max-wait", "10", "--topology", "fig9-1", source]);
    sent.assert_code(0);
    receivers.end(LIMIT).assert_code(0);
    let files = (1..16).map(|host| directory.path().join(format!("n{host}.bin")));
    assert!(files.into_iter().all(|file| fs::read(file).is_ok_and(|file| file == content(9, MEBIBYTE))));
    assert_eq!(names_in(directory.path()).len(), 16, "the source and what 15 hosts have received");
}

#[test]
fn a_lab_that_cannot_be_is_refused() {
    require_root();
    let name = lab_name("never");
    for (arguments, parts) in [
        (&["0"][..], &["lab of 0 hosts", "1 to"][..]),
        (&["100000"], &["lab of 100000 hosts", "1 to"]),
        (&["fig9-9"], &["fig9-9", "topology file", "fig9-1", "fig9-5"]),
        (&["--topology", "no-such-file.toml"], &["no-such-file.toml", "topology file"]),
        (&["2", "--rate", "fast"], &["`fast`", "100mbit"]),
        (&["2", "--loss", "1"], &["loss of 1", "0.01"]),
        (&["2", "--mtu", "10"], &["MTU of 10", "68 to 65535"]),
    ] {
        ended_here(&[&["lab", "up", "--lab", &name], arguments].concat()).assert_refusal(2, parts);
    }
    ended_here(&["lab", "up", "--lab", "a-b", "2"]).assert_refusal(2, &["`a-b`", "letters, digits"]);
    ended_here(&["lab", "exec", "--lab", &name, "n0", "--", "true"]).assert_refusal(2, &["no lab", &name, "lab up"]);
    ended_here(&["lab", "each", "--lab", &name, "--", "true"]).assert_refusal(2, &["no lab", &name, "lab up"]);
    ended_here(&["lab", "topology", "fig9-9"]).assert_refusal(2, &["fig9-9", "fig9-1"]);
    assert_eq!(namespaces(&format!("ethbcast-{name}-")), [""; 0]);
    let file = ended_here(&["lab", "topology", "fig9-4"]);
    file.assert_code(0);
    assert_eq!(Topology::parse(&file.stdout_text(), "stdout").ok(), Topology::builtin("fig9-4"));
}
