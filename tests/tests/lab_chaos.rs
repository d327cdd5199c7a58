//! Tests of the fault injection and soak programs (`chaos`, `soak`) themselves. Memory and
//! descriptors do not grow over many sessions.

use ethbcast_lab::{Lab, LabGuard};
use ethbcast_tests::lab::{
    Ended, LIMIT, Run, Site, Tap, lab_name, one_switch, require_root, within,
};
use ethbcast_tests::soak::{HOSTS, run_traffic};
use std::process::{Command, Stdio};
use std::time::Duration;

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
        assert!(
            line.starts_with(&format!("{seed}: ")) && line.contains("; disk: "),
            "{line}"
        );
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
    nobody.args([
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        env!("CARGO_BIN_EXE_chaos"),
    ]);
    nobody.stdin(Stdio::null());
    // The program may lie where only root has access.
    let refused = Run::start("nobody", nobody).end(LIMIT);
    assert!(
        refused.code() != 0 && !refused.stderr.contains("panicked"),
        "{}",
        refused.stderr
    );
    chaos(&["--ethbcast", "/nowhere/ethbcast"])
        .assert_refusal(1, &["/nowhere/ethbcast", "cargo build --release"]);
    let name = lab_name("taken");
    let _lab = LabGuard::up(&ethbcast_lab::LabConfig {
        name: format!("{name}0"),
        ..one_switch(2)
    })
    .expect("a lab");
    let refused = chaos(&["--lab", &name, "--ethbcast", env!("CARGO_BIN_EXE_chaos")]);
    refused.assert_refusal(1, &[&format!("ethbcast lab down --lab {name}0"), "--lab"]);
}

fn tap(lab: &Lab, host: &str) -> Tap {
    lab.run_on(host, || Tap::on("eth0"))
        .expect("a host")
        .expect("a socket")
}

fn frame(text: &[u8; 46]) -> Vec<u8> {
    [&[0xff; 6][..], &[2, 9, 9, 9, 9, 9], &[0x88, 0xb6], text].concat()
}

fn heard(tap: &Tap) -> Option<Vec<u8>> {
    let mut buffer = [0; 2000];
    within(LIMIT, || {
        tap.receive(&mut buffer)
            .expect("a sound cable")
            .map(|length| buffer[..length].to_vec())
    })
}

#[test]
fn only_forwarded_frames_pass_a_detour() {
    require_root();
    let lab = LabGuard::up(&ethbcast_lab::LabConfig {
        name: lab_name("detour"),
        ..one_switch(2)
    })
    .expect("a lab");
    let detour = lab.detour("n1").expect("a detour");
    let ends = lab
        .run_at_switches(|| [&detour.towards_host, &detour.towards_switch].map(|end| Tap::on(end)));
    let [near, far] = ends
        .expect("the switches")
        .map(|end| end.expect("a socket"));
    let (left, right) = (tap(&lab, "n0"), tap(&lab, "n1"));
    let there = frame(&[b'>'; 46]);
    assert!(left.send(&there).expect("sent"));
    let carried = heard(&far).expect("it comes to the detour");
    assert_eq!(carried, there);
    let mut buffer = [0; 2000];
    assert_eq!(
        right.receive(&mut buffer).expect("sound"),
        None,
        "nobody has carried it"
    );
    assert!(near.send(&carried).expect("carried"));
    assert_eq!(heard(&right), Some(there));
    let back = frame(&[b'<'; 46]);
    assert!(right.send(&back).expect("sent"));
    let carried = heard(&near).expect("it comes to the detour");
    assert!(far.send(&carried).expect("carried"));
    assert_eq!(heard(&left), Some(back));
}

#[test]
fn sessions_in_a_row_do_not_grow() {
    require_root();
    let arguments = ["--sessions", "48", "--minutes", "0", "--samples", "12"];
    let soak = Run::here(env!("CARGO_BIN_EXE_soak"), &arguments).end(LIMIT);
    soak.assert_code(0);
    assert!(
        soak.stdout_text().contains("48 sessions"),
        "{}",
        soak.stdout_text()
    );
}

#[test]
fn a_communicator_that_is_used_opens_and_starts_nothing() {
    let site = Site::beside("soak", one_switch(HOSTS));
    let directory = site.directory("received");
    let (lasts, every) = (Duration::from_secs(6), Duration::from_millis(100));
    let (traffic, rounds) = run_traffic(site.lab(), &directory, lasts, every).expect("collectives");
    assert!(rounds > 8, "{rounds} rounds");
    // A short run does not use every buffer once.
    assert_eq!(traffic.counted_drift(), [""; 0], "{:?}", traffic.ends());
}
