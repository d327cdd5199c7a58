//! Tests of refusals: unusable interfaces, paths with a smaller MTU, and wrong topology files.

mod dest;
pub mod meeting;

use crate::harness::{
    Ended, Ethbcast, LIMIT, MEBIBYTE, PROGRAM, Run, Site, content, ended_here, lab_name, names_in,
    one_switch, require_root, within,
};
use ethbcast_lab::LabConfig;
use meeting::Nobody;
use nix::pty::{OpenptyResult, openpty};
use nix::sys::signal::Signal;
use nix::sys::termios::{LocalFlags, tcgetattr};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn an_interface_that_will_not_do_is_refused_with_what_to_type_instead() {
    let site = Site::beside("iface", one_switch(2));
    let source = site.file("source", "text");
    let commands = [
        (&["send", "-n", "1"][..], source.as_path()),
        (&["recv"], &site.path("dest")),
    ];
    for (command, path) in commands {
        let on = |host, interface: &[&str]| site.run(host, &[command, interface].concat(), path);
        on("n0", &["-i", "eth7"])
            .assert_refusal(4, &["no interface eth7", "eth0", "-i", "[E-INTERFACE]"]);
        on("n0", &["-i", "lo"]).assert_refusal(
            4,
            &["lo is not an Ethernet interface", "-i", "[E-INTERFACE]"],
        );
        site.set_up("n1", "ip", &["link", "set", "eth0", "down"]);
        on("n1", &["-i", "eth0"])
            .assert_refusal(4, &["eth0 is down", "ip link set eth0 up", "[E-DOWN]"]);
        on("n1", &[]).assert_refusal(4, &["no Ethernet interface is up", "ip link set"]);
        site.set_up("n1", "ip", &["link", "set", "eth0", "up"]);
    }
    site.set_up(
        "n0",
        "ip",
        &[
            "link", "add", "eth1", "type", "veth", "peer", "name", "eth2",
        ],
    );
    ["eth1", "eth2"]
        .into_iter()
        .for_each(|name| site.set_up("n0", "ip", &["link", "set", name, "up"]));
    site.run("n0", &["send", "-n", "1"], &source)
        .assert_refusal(4, &["several", "eth0", "eth1", "eth2", "-i"]);
    // The interface of the default route is chosen, if there is one.
    site.set_up("n0", "ip", &["route", "add", "default", "dev", "eth1"]);
    let chosen = site.run("n0", &["send", "-n", "1", "--max-wait", "0.1"], &source);
    chosen.assert_refusal(3, &["0 of 1 receivers"]);
    let said = [
        "takes eth1, which has the default route",
        " on eth1, MTU 1500",
    ];
    assert!(
        said.iter().all(|part| chosen.stderr.contains(part)),
        "{}",
        chosen.stderr
    );
    let quiet = site.run(
        "n0",
        &["send", "-q", "-n", "1", "--max-wait", "0.1"],
        &source,
    );
    quiet.assert_refusal(3, &["0 of 1 receivers"]);
    assert_eq!(quiet.stderr.lines().count(), 1, "{}", quiet.stderr);
    site.run(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--mtu", "1501"],
        &source,
    )
    .assert_refusal(2, &["--mtu 1501", "at most 1500", "[E-MTU]"]);
    site.run(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--mtu", "100"],
        &source,
    )
    .assert_refusal(2, &["100", "at least 576"]);
    // The only interface that is up needs no name.
    site.run("n1", &["send", "-n", "1", "--max-wait", "0.1"], &source)
        .assert_code(3);
}

#[test]
fn recv_waits_for_its_interface_as_long_as_for_a_sender() {
    let site = Site::beside("lateiface", one_switch(2));
    let source = site.file("source", "text");
    site.set_up("n1", "ip", &["link", "set", "eth0", "down"]);
    for (interface, words) in [("eth0", "eth0 is down"), ("eth7", "no interface eth7")] {
        let recv = ["recv", "-i", interface, "--max-wait", "0.5"];
        site.run("n1", &recv, site.path("never"))
            .assert_refusal(4, &[words]);
    }
    // Under its present name, and under one that it gets later.
    for (name, before) in [("eth0", "eth0 is down"), ("lan0", "no interface lan0")] {
        let dest = site.path(name);
        let receiver = site.start("n1", &["recv", "-i", name, "--max-wait", "30"], &dest);
        receiver.wait_for_line(before);
        if name == "lan0" {
            site.set_up("n1", "ip", &["link", "set", "eth0", "name", "lan0"]);
        }
        site.set_up("n1", "ip", &["link", "set", name, "up"]);
        site.run("n0", &["send", "-n", "1", "--max-wait", "30"], &source)
            .assert_code(0);
        receiver.end(LIMIT).assert_code(0);
        assert_eq!(fs::read(&dest).expect("received"), b"text");
        site.set_up("n1", "ip", &["link", "set", name, "down"]);
    }
    let receiver = site.start("n1", &["recv", "--max-wait", "30"], site.path("never"));
    receiver.wait_for_line("it is waited for");
    receiver.signal(Signal::SIGTERM);
    receiver.end(LIMIT).assert_code(143);
}

#[test]
fn without_root_the_tool_names_the_capability_it_needs_and_with_it_it_works() {
    let site = Site::beside("nobody", one_switch(2));
    let nobody = Nobody::new();
    let (source, directory) = (site.file("source", "text"), site.directory("open"));
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).expect("it is ours");
    let dest = directory.join("dest");
    for (command, path) in [
        (&["send", "-n", "1", "-i", "eth0"][..], &source),
        (&["recv", "-i", "eth0"], &dest),
    ] {
        let refused = nobody.start(&site, "n0", "-all", command, path).end(LIMIT);
        refused.assert_refusal(
            4,
            &["not permitted", "root", "cap_net_raw", "[E-CAPABILITY]"],
        );
    }
    nobody
        .start(
            &site,
            "n0",
            "-all",
            &["lab", "up", "--lab", &lab_name("never")],
            "2",
        )
        .end(LIMIT)
        .assert_refusal(4, &["root", "sudo"]);
    assert_eq!(names_in(&directory), [""; 0]);
    let raw = "-all,+net_raw";
    let receiver = nobody.start(
        &site,
        "n1",
        raw,
        &["recv", "-i", "eth0", "--max-wait", "10"],
        &dest,
    );
    nobody
        .start(
            &site,
            "n0",
            raw,
            &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"],
            &source,
        )
        .end(LIMIT)
        .assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(fs::read(&dest).expect("received"), b"text");
}

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
    ["n0", "n1"]
        .into_iter()
        .for_each(|host| site.set_up(host, "ip", &["link", "set", "eth0", "mtu", "9000"]));
    site
}

/// Returns the number of n0's dropped frames.
fn refused(site: &Site) -> u64 {
    let mut command = site.command("n0", "ip");
    command.args(["-s", "-j", "link", "show", "eth0"]);
    let shown = Run::start("ip", command).end(LIMIT).stdout_text();
    let shown: Value = serde_json::from_str(&shown).expect("a list");
    shown[0]["stats64"]["tx"]["dropped"]
        .as_u64()
        .expect("a count")
}

#[track_caller]
fn assert_first_hop(ended: &Ended) {
    let words = [
        "eth0 has an MTU of 9000",
        "`ip link set eth0 mtu 1500`",
        "--mtu 1500",
        "[E-PATH]",
    ];
    ended.assert_refusal(4, &words);
}

#[test]
fn a_first_hop_that_takes_no_full_frames_is_named_within_every_limit_and_the_mtu_that_passes_helps()
{
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
        assert!(
            refused <= most,
            "{refused} frames were refused in {:?}",
            began.elapsed()
        );
        let told = [
            "n0 itself sends no frames of 9014 bytes",
            "send with --mtu 1500",
            "[E-PATH]",
        ];
        receiver.end(GENEROUS).assert_refusal(4, &told);
    }
    let receiver = site.start("n1", &["recv"], &dest);
    site.start("n0", &["send", "-n", "1", "--mtu", "1500"], &source)
        .end(LIMIT)
        .assert_code(0);
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
        assert!(
            said.contains("eth0 has an MTU of 9000") && said.contains("ip link set eth0 mtu 1500"),
            "{said}"
        );
    }
    answering.signal(Signal::SIGTERM);
}

#[test]
fn a_bucket_smaller_than_a_frame_is_named_as_well() {
    let site = Site::beside(
        "bucket",
        LabConfig {
            mtu_bytes: 9000,
            ..one_switch(2)
        },
    );
    let bucket = [
        "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "100mbit", "burst", "3000", "limit",
        "100000",
    ];
    site.set_up("n0", "tc", &bucket);
    let receiver = site.start(
        "n1",
        &["recv", "--once", "--max-wait", "10"],
        site.path("dest"),
    );
    let sender = site.start(
        "n0",
        &["send", "-n", "1", "--max-wait", "4"],
        site.file("source", "text"),
    );
    sender.end(GENEROUS).assert_refusal(
        4,
        &[
            "eth0 has an MTU of 9000",
            "ip link set eth0 mtu 29",
            "[E-PATH]",
        ],
    );
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
    let words = [
        "eth0 has taken no frame to send for",
        "nft list ruleset",
        "[E-FILTER]",
    ];
    for limit in [["--max-wait", "3"], ["--timeout", "3"]] {
        let send = [&["send", "-n", "1"][..], &limit].concat();
        site.start("n0", &send, &source)
            .end(GENEROUS)
            .assert_refusal(4, &words);
    }
    let sender = site.start("n0", &["send", "-n", "1"], &source);
    sender.wait_for_line("waiting: 0 of 1");
    sender.signal(Signal::SIGTERM);
    sender.end(GENEROUS).assert_code(143);
    // A receiver that cannot send a join request.
    let sender = site.start("n1", &["send", "-n", "1", "--max-wait", "20"], &source);
    site.start("n0", &["recv", "--max-wait", "4"], site.path("dest"))
        .end(GENEROUS)
        .assert_refusal(4, &words);
    let receiver = site.start("n0", &["recv"], site.path("dest"));
    receiver.wait_for_line("offers");
    receiver.signal(Signal::SIGTERM);
    receiver.end(GENEROUS).assert_code(143);
    sender.signal(Signal::SIGTERM);
    sender.end(GENEROUS).assert_code(143);
}

const LOOP: &str = "schema = 1\n\
    [[switch]]\nname = \"s0\"\nhosts = \"n[0-1]\"\nlinks = [\"s1\"]\n\
    [[switch]]\nname = \"s1\"\nlinks = [\"s2\"]\n\
    [[switch]]\nname = \"s2\"\nlinks = [\"s0\"]\n";
const HOST_ON_TWO_SWITCHES: &str = "schema = 1\n\
    [[switch]]\nname = \"s0\"\nhosts = \"n[0-3]\"\nlinks = [\"s1\"]\n\
    [[switch]]\nname = \"s1\"\nhosts = \"n[3-5]\"\n";
const NO_SUCH_SWITCH: &str =
    "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n[0-3]\"\nlinks = [\"s9\"]\n";
const OTHER_HOSTS: &str = "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n[5-7]\"\n";

#[test]
fn a_topology_file_that_cannot_be_true_is_refused_with_file_and_line() {
    let site = Site::beside("topo", one_switch(2));
    let source = site.file("source", "text");
    let refused = |name: &str, text: &str, parts: &[&str]| {
        let file = site.file(name, text);
        let file = file.to_str().expect("UTF-8");
        site.run(
            "n0",
            &["send", "-n", "1", "-i", "eth0", "--topology", file],
            &source,
        )
        .assert_refusal(2, parts);
        // The lab reads such files, too.
        ended_here(&["lab", "up", "--lab", &lab_name("never"), "--topology", file])
            .assert_refusal(2, parts);
    };
    refused(
        "loop.toml",
        LOOP,
        &["loop.toml:11:", "s0", "s1", "s2", "loop", "remove"],
    );
    refused(
        "twice.toml",
        HOST_ON_TWO_SWITCHES,
        &["twice.toml:8:", "`n3`", "s0", "once"],
    );
    refused(
        "switch.toml",
        NO_SUCH_SWITCH,
        &["switch.toml:5:", "`s9`", "not a switch"],
    );
    refused("not.toml", "schema = 1\n[[switch\n", &["not.toml:2:"]);
    refused(
        "schema.toml",
        "[[switch]]\nname = \"s0\"\n",
        &["schema.toml", "schema = 1"],
    );
    let missing = site.path("missing.toml");
    let missing = missing.to_str().expect("UTF-8");
    site.run(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--topology", missing],
        &source,
    )
    .assert_refusal(4, &["cannot read", "missing.toml"]);
}

#[test]
fn a_host_that_the_topology_does_not_name_is_refused_on_either_side() {
    let site = Site::beside("unknown", one_switch(2));
    let (source, file) = (
        site.file("source", "text"),
        site.file("other.toml", OTHER_HOSTS),
    );
    let file = file.to_str().expect("UTF-8");
    let root = site.run(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--topology", file],
        &source,
    );
    root.assert_refusal(2, &["other.toml", "n0", "n[5-7]", "--host"]);
    let receiver = site.start(
        "n1",
        &["recv", "--once", "-i", "eth0", "--max-wait", "10"],
        site.path("dest"),
    );
    let root = site.run(
        "n0",
        &[
            "send",
            "-n",
            "1",
            "-i",
            "eth0",
            "--topology",
            file,
            "--host",
            "n5",
            "--max-wait",
            "2",
        ],
        &source,
    );
    receiver.end(LIMIT).assert_refusal(2, &["n1", "--host"]);
    root.assert_refusal(3, &["0 of 1 receivers", "n1", "[E-TOPOLOGY]"]);
    // With its name in the topology it is admitted.
    let receiver = site.start(
        "n1",
        &["recv", "-i", "eth0", "--host", "n6", "--max-wait", "10"],
        site.path("dest"),
    );
    site.run(
        "n0",
        &[
            "send",
            "-n",
            "1",
            "-i",
            "eth0",
            "--topology",
            file,
            "--host",
            "n5",
            "--max-wait",
            "10",
        ],
        &source,
    )
    .assert_code(0);
    receiver.end(LIMIT).assert_code(0);
}

#[test]
fn a_calibration_that_cannot_be_written_is_the_systems_fault() {
    let site = Site::beside("probeout", one_switch(2));
    let answerer = Run::start(
        "n1",
        site.ethbcast("n1", ["probe", "--answer", "-i", "eth0"]),
    );
    answerer.wait_for_line("answers the probes");
    let nowhere = site.path("no/such.toml");
    let probe = site.ethbcast(
        "n0",
        [
            "probe",
            "-q",
            "-i",
            "eth0",
            "-n",
            "1",
            "--out",
            nowhere.to_str().expect("UTF-8"),
        ],
    );
    Run::start("n0", probe)
        .end(LIMIT)
        .assert_refusal(4, &["cannot write", "such.toml", "--out"]);
    answerer.signal(Signal::SIGINT);
    answerer.end(LIMIT).assert_code(130);
}

#[test]
fn a_root_is_refused_before_it_waits_for_anybody() {
    let site = Site::beside("perfbad", one_switch(2));
    let root = |more: &[&str]| {
        let arguments = [
            "perf",
            "-i",
            "eth0",
            "-n",
            "2",
            "--root",
            "--max-wait",
            "20",
        ];
        Run::start("n0", site.ethbcast("n0", arguments.iter().chain(more))).end(LIMIT)
    };
    root(&["--via", "pigeon"]).assert_refusal(
        2,
        &[
            "`pigeon` is no way to send",
            "chain",
            "scatter-allgather",
            "latency",
            "auto",
        ],
    );
    root(&["--via", "kary=1"]).assert_refusal(2, &["`kary=1`", "from 2 to 64", "kary=3"]);
    root(&["--preset", "paper"]).assert_refusal(2, &["--preset paper", "add --via cast"]);
    let missing = site.path("missing.toml");
    let missing = missing.to_str().expect("UTF-8");
    root(&["--topology", missing])
        .assert_refusal(4, &["cannot read the topology file", "missing.toml"]);
    root(&["--calibration", missing])
        .assert_refusal(4, &["cannot read the calibration file", "missing.toml"]);
    let falling = "schema = 1\n[[point]]\nbytes = 256\ngap_ns = 4000\nlatency_ns = 1\n\
                   [[point]]\nbytes = 1468\ngap_ns = 3999\nlatency_ns = 1\n";
    let falling = site.file("falling.toml", falling);
    root(&["--calibration", falling.to_str().expect("UTF-8")])
        .assert_refusal(2, &["falling.toml:8:", "do not fall"]);
}

const PHRASE: &str = "babad-bamag-bibaj-bimal-boban-bomar-bubat-bumaz-domut";

/// Answers the question for a phrase on a terminal of its own; returns the exit code, or the signal
/// as a shell says it.
fn answered(answer: &[u8]) -> Option<i32> {
    let OpenptyResult { master, slave } = openpty(None, None).expect("a terminal");
    let shown = || {
        tcgetattr(&slave)
            .expect("a terminal")
            .local_flags
            .contains(LocalFlags::ECHO)
    };
    let mut command = Command::new("setsid");
    // Programs in the background of a shell may have Ctrl-C ignored.
    command.args([
        "--ctty",
        "--wait",
        "env",
        "--default-signal=INT",
        PROGRAM,
        "send",
        "--key-phrase",
        "-n",
        "1",
    ]);
    command
        .args(["-i", "nosuch0", "Cargo.toml"])
        .env("ETHBCAST_CONFIG", "");
    command
        .stdin(slave.try_clone().expect("a descriptor"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let mut terminal = fs::File::from(master);
    assert!(
        within(LIMIT, || (!shown()).then_some(())).is_some(),
        "nobody asks"
    );
    terminal.write_all(answer).expect("typed");
    let code = within(LIMIT, || child.try_wait().expect("a child"));
    drop(child.kill());
    assert!(shown(), "the terminal is as it was");
    code.and_then(|status| status.code().or(status.signal().map(|signal| 128 + signal)))
}

#[test]
fn a_phrase_is_not_shown_and_who_gives_up_has_his_terminal_back() {
    require_root();
    assert_eq!(
        answered(format!("{PHRASE}\n").as_bytes()),
        Some(4),
        "the interface is looked for"
    );
    assert_eq!(answered(b"babad\n"), Some(2));
    assert_eq!(answered(b"bab\x03"), Some(130));
}
