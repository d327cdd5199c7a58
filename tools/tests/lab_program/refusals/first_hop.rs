//! A first hop that drops frames: long ones, or all.

use crate::harness::{Ended, Ethbcast, LIMIT, MEBIBYTE, Run, Site, content, one_switch};
use ethbcast_lab::LabConfig;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};

/// Limit for operations that take a few seconds, on a busy machine.
const GENEROUS: Duration = Duration::from_secs(40);
/// Dropped frames before the kernel's report is believed and during the search for the limit, and
/// per second afterwards.
const REFUSALS: u64 = 150;
const REFUSALS_PER_SECOND: u64 = 10;

/// Hosts with an MTU of 9000 on ports of 1500: a veth drops frames beyond its peer's MTU and
/// reports it.
fn narrow(story: &str) -> Site {
    let site = Site::beside(story, one_switch(2));
    ["n0", "n1"].into_iter().for_each(|host| site.set_up(host, "ip", &["link", "set", "eth0", "mtu", "9000"]));
    site
}

/// Returns the number of n0's dropped frames.
fn refused(site: &Site) -> u64 {
    let mut command = site.command("n0", "ip");
    command.args(["-s", "-j", "link", "show", "eth0"]);
    let shown = Run::start("ip", command).end(LIMIT).stdout_text();
    let shown: Value = serde_json::from_str(&shown).expect("a list");
    shown[0]["stats64"]["tx"]["dropped"].as_u64().expect("a count")
}

#[track_caller]
fn assert_first_hop(ended: &Ended) {
    let words = ["eth0 has an MTU of 9000", "`ip link set eth0 mtu 1500`", "--mtu 1500", "[E-PATH]"];
    ended.assert_refusal(4, &words);
}

#[test]
fn a_first_hop_that_takes_no_full_frames_is_named_within_every_limit_and_the_mtu_that_passes_helps() {
    let site = narrow("firsthop");
    let bytes = content(3, MEBIBYTE);
    let (source, dest) = (site.file("source", &bytes), site.path("dest"));
    for limit in [["--max-wait", "4"], ["--timeout", "4"]] {
        let (before, began) = (refused(&site), Instant::now());
        let receiver = site.start("n1", &["recv", "--once", "--max-wait", "10"], &dest);
        let send = [&["send", "-n", "1"][..], &limit].concat();
        assert_first_hop(&site.start("n0", &send, &source).end(GENEROUS));
        let most = REFUSALS + REFUSALS_PER_SECOND * (began.elapsed().as_secs() + 1);
        let refused = refused(&site) - before;
        assert!(refused <= most, "{refused} frames were refused in {:?}", began.elapsed());
        let told = ["n0 itself sends no frames of 9014 bytes", "send with --mtu 1500", "[E-PATH]"];
        receiver.end(GENEROUS).assert_refusal(4, &told);
    }
    let receiver = site.start("n1", &["recv"], &dest);
    site.start("n0", &["send", "-n", "1", "--mtu", "1500"], &source).end(LIMIT).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert!(fs::read(&dest).is_ok_and(|file| file == bytes));
}

#[test]
fn the_first_sigterm_ends_a_sender_whose_long_frames_are_refused_and_whose_receiver_has_gone() {
    let site = narrow("hopterm");
    let receiver = site.start("n1", &["recv"], site.path("dest"));
    let sender = site.start("n0", &["send", "-n", "1"], site.file("source", "text"));
    sender.wait_for_line("turned away: n0 itself sends no frames of 9014 bytes");
    receiver.signal(Signal::SIGKILL);
    sender.signal(Signal::SIGTERM);
    sender.end(GENEROUS).assert_code(143);
}

#[test]
fn the_doctor_finds_a_first_hop_that_takes_no_full_frames() {
    let site = narrow("hopdoctor");
    let answering = site.start("n1", &["probe"], "--answer");
    answering.wait_for_line("answers the probes");
    for doctor in [&["doctor", "--peer", "n1"][..], &["doctor"]] {
        let doctor = Run::start("doctor", site.ethbcast("n0", doctor)).end(GENEROUS);
        doctor.assert_code(1);
        let said = doctor.stdout_text();
        assert_eq!(said.matches("E-PATH").count(), 1, "{said}");
        assert!(said.contains("eth0 has an MTU of 9000") && said.contains("ip link set eth0 mtu 1500"), "{said}");
    }
    answering.signal(Signal::SIGTERM);
}

#[test]
fn a_bucket_smaller_than_a_frame_is_named_as_well() {
    let site = Site::beside("bucket", LabConfig { mtu_bytes: 9000, ..one_switch(2) });
    let bucket = ["qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "100mbit", "burst", "3000", "limit", "100000"];
    site.set_up("n0", "tc", &bucket);
    let receiver = site.start("n1", &["recv", "--once", "--max-wait", "10"], site.path("dest"));
    let sender = site.start("n0", &["send", "-n", "1", "--max-wait", "4"], site.file("source", "text"));
    sender.end(GENEROUS).assert_refusal(4, &["eth0 has an MTU of 9000", "ip link set eth0 mtu 29", "[E-PATH]"]);
    receiver.end(GENEROUS).assert_code(4);
}

#[test]
fn where_no_frame_leaves_every_limit_and_the_first_sigterm_hold() {
    let site = Site::beside("nothing", one_switch(2));
    for command in [
        "add table netdev hop",
        "add chain netdev hop out { type filter hook egress device eth0 priority 0; }",
        "add rule netdev hop out drop",
    ] {
        site.set_up("n0", "nft", &[command]);
    }
    let source = site.file("source", "text");
    let words = ["eth0 has taken no frame to send for", "nft list ruleset", "[E-FILTER]"];
    for limit in [["--max-wait", "3"], ["--timeout", "3"]] {
        let send = [&["send", "-n", "1"][..], &limit].concat();
        site.start("n0", &send, &source).end(GENEROUS).assert_refusal(4, &words);
    }
    let sender = site.start("n0", &["send", "-n", "1"], &source);
    sender.wait_for_line("waiting: 0 of 1");
    sender.signal(Signal::SIGTERM);
    sender.end(GENEROUS).assert_code(143);
    // A receiver that cannot send a join request.
    let sender = site.start("n1", &["send", "-n", "1", "--max-wait", "20"], &source);
    site.start("n0", &["recv", "--max-wait", "4"], site.path("dest")).end(GENEROUS).assert_refusal(4, &words);
    let receiver = site.start("n0", &["recv"], site.path("dest"));
    receiver.wait_for_line("offers");
    receiver.signal(Signal::SIGTERM);
    receiver.end(GENEROUS).assert_code(143);
    sender.signal(Signal::SIGTERM);
    sender.end(GENEROUS).assert_code(143);
}
