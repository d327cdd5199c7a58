//! The `chaos` program without runs: drawing, listing, refusals; and its relays and disks.

mod relay;

use ethbcast_lab::LabGuard;
use ethbcast_tests::lab::{Ended, LIMIT, Run, lab_name, one_switch, require_root};
use std::process::{Command, Stdio};

fn chaos(arguments: &[&str]) -> Ended {
    Run::here(env!("CARGO_BIN_EXE_chaos"), arguments).end(LIMIT)
}

#[test]
fn a_list_says_what_would_be_played() {
    let listed = chaos(&["--list", "--runs", "3", "--seed", "7", "--only", "disk"]);
    listed.assert_code(0);
    let text = listed.stdout_text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    for (seed, line) in (7..).zip(lines) {
        assert!(line.starts_with(&format!("{seed}: ")) && line.contains("; disk: "), "{line}");
    }
}

#[test]
fn an_unknown_class_is_refused_with_those_there_are() {
    chaos(&["--only", "earthquake"]).assert_refusal(2, &["earthquake", "kill, pause", "attack"]);
}

#[test]
fn without_root_or_the_program_or_where_a_lab_is_up_it_is_refused_with_the_fix() {
    require_root();
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", env!("CARGO_BIN_EXE_chaos")]);
    nobody.stdin(Stdio::null());
    // The program may lie where only root has access.
    let refused = Run::start("nobody", nobody).end(LIMIT);
    assert!(refused.code() != 0 && !refused.stderr.contains("panicked"), "{}", refused.stderr);
    chaos(&["--ethbcast", "/nowhere/ethbcast"]).assert_refusal(1, &["/nowhere/ethbcast", "cargo build --release"]);
    let name = lab_name("taken");
    let _lab = LabGuard::up(&ethbcast_lab::LabConfig { name: format!("{name}0"), ..one_switch(2) }).expect("a lab");
    let refused = chaos(&["--lab", &name, "--ethbcast", env!("CARGO_BIN_EXE_chaos")]);
    refused.assert_refusal(1, &[&format!("ethbcast lab down --lab {name}0"), "--lab"]);
}
