//! `ethbcast doctor` on the hosts of a lab: nothing is found where nothing is wrong; each fault that is planted is
//! found, the command that is named for it mends it, and then nothing is found.
//!
//! These tests need root, and fail without it: a test that skips itself says nothing. Not planted, because a lab's
//! cables have neither: rates and duplex.

use ethbcast_tests::lab::{Ended, LIMIT, Run, Site, one_switch};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ethbcast");

/// What `doctor` says on n0.
fn doctor(site: &Site, more: &[&str]) -> Ended {
    let mut command = site.command("n0", PROGRAM);
    command.args(["doctor", "-i", "eth0", "--json"]).args(more);
    Run::start("doctor", command).end(LIMIT)
}

/// What it found: codes and commands.
fn findings(ended: &Ended) -> Vec<(String, String)> {
    let said: Value = serde_json::from_slice(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let text = |finding: &Value, name: &str| finding[name].as_str().expect("a text").to_owned();
    said["findings"].as_array().expect("a list").iter().map(|one| (text(one, "code"), text(one, "fix"))).collect()
}

#[track_caller]
fn assert_healthy(site: &Site, more: &[&str]) {
    let ended = doctor(site, more);
    assert_eq!(findings(&ended), [], "{ended:?}");
    ended.assert_code(0);
}

/// The command for the only finding, which must be this one.
#[track_caller]
fn fix_of(ended: &Ended, code: &str) -> String {
    let found = findings(ended);
    ended.assert_code(1);
    assert!(found.len() == 1 && found[0].0 == code, "{code}: {found:?}");
    found[0].1.clone()
}

#[test]
fn each_fault_is_found_mended_by_the_command_that_is_named_and_found_no_more() {
    let site = Site::beside("doctor", one_switch(2));
    assert_healthy(&site, &[]);
    let table = |rule: &str| {
        format!(
            "add table netdev t; add chain netdev t c {{ type filter hook ingress device eth0 priority 0; }}; {rule}"
        )
    };
    let plant_down = ["ip", "link", "set", "eth0", "down"].map(str::to_owned).to_vec();
    let plant_mtu = ["ip", "link", "set", "eth0", "mtu", "576"].map(str::to_owned).to_vec();
    let plant_drop = vec!["nft".to_owned(), table("add rule netdev t c ether type 0x88b5 drop")];
    let plant_storm =
        vec!["nft".to_owned(), table("add rule netdev t c meta pkttype multicast limit rate over 100/second drop")];
    let plant_policy = vec!["nft".to_owned(), table("chain netdev t c { policy drop; }")];
    let plant_member =
        vec!["sh".to_owned(), "-c".to_owned(), "ip link add br0 type bridge && ip link set eth0 master br0".to_owned()];
    let faults = [
        ("E-DOWN", plant_down),
        ("E-MTU", plant_mtu),
        ("E-FILTER", plant_drop),
        ("E-FILTER", plant_storm),
        ("E-FILTER", plant_policy),
        ("E-MEMBER", plant_member),
    ];
    for (code, plant) in faults {
        let arguments: Vec<_> = plant[1..].iter().map(String::as_str).collect();
        site.set_up("n0", &plant[0], &arguments);
        let fix = fix_of(&doctor(&site, &[]), code);
        println!("{code}: {fix}");
        site.set_up("n0", "sh", &["-c", &fix]);
        assert_healthy(&site, &[]);
    }
    // A rule for another protocol is none of ours.
    site.set_up("n0", "nft", &["add rule netdev t c ether type arp drop"]);
    assert_healthy(&site, &[]);
}

#[test]
fn a_full_or_missing_directory_is_found_and_so_is_an_interface_that_is_none() {
    let site = Site::beside("doctordest", one_switch(2));
    let small = site.directory("small");
    let path = small.to_str().expect("UTF-8").to_owned();
    let dest = site.path("new/image");
    let dest = dest.to_str().expect("UTF-8");
    let fix = fix_of(&doctor(&site, &["--dest", dest]), "E-DEST");
    site.set_up("n0", "sh", &["-c", &fix]);
    assert_healthy(&site, &["--dest", dest, "--size", "1M"]);
    // Each command has its own mounts on a host of a lab: the file system and the doctor in one shell.
    let shell = format!(
        "mount -t tmpfs -o size=1m none {path} && exec {PROGRAM} doctor -i eth0 --json --dest {path}/image --size $0"
    );
    let run = |size: &str| {
        let mut command = site.command("n0", "unshare");
        command.args(["--mount", "sh", "-c", &shell, size]);
        Run::start("doctor", command).end(LIMIT)
    };
    assert!(fix_of(&run("2M"), "E-SPACE").contains(&path));
    assert_eq!(findings(&run("512K")), []);
    let mut nosuch = site.command("n0", PROGRAM);
    nosuch.args(["doctor", "-i", "nosuch0", "--json"]);
    fix_of(&Run::start("doctor", nosuch).end(LIMIT), "E-INTERFACE");
}

#[test]
fn who_may_not_open_a_packet_socket_is_told_so() {
    let site = Site::beside("doctorcap", one_switch(2));
    let program = site.path("ethbcast");
    fs::copy(PROGRAM, &program).expect("copied");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    let run = |more: &[&str]| {
        let mut command = site.command("n0", "setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).args(more).arg(&program);
        Run::start("doctor", {
            command.args(["doctor", "-i", "eth0", "--json"]);
            command
        })
        .end(LIMIT)
    };
    let fix = fix_of(&run(&[]), "E-CAPABILITY");
    assert!(fix.starts_with("setcap cap_net_raw+ep /"), "{fix}");
    // What setcap gives to the program, here given to the process: a lab's files may lie where no capability is kept.
    assert_eq!(findings(&run(&["--inh-caps", "+net_raw", "--ambient-caps", "+net_raw"])), []);
}

#[test]
fn every_code_is_explained() {
    let listed = Run::here(PROGRAM, &["explain"]).end(LIMIT);
    listed.assert_code(0);
    for line in listed.stdout_text().lines() {
        let code = line.split_whitespace().next().expect("a code");
        let explained = Run::here(PROGRAM, &["explain", &code.to_lowercase()]).end(LIMIT);
        explained.assert_code(0);
        assert!(["why ", "help "].iter().all(|part| explained.stdout_text().contains(part)), "{explained:?}");
    }
    Run::here(PROGRAM, &["explain", "E-NONE"]).end(LIMIT).assert_refusal(2, &["E-NONE", "E-MTU"]);
}
