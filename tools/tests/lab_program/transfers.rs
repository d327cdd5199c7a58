//! Tests of transfers by every broadcast algorithm and preset, and of the host names in them.

use crate::harness::{
    Ethbcast, LIMIT, MEBIBYTE, Outcome, PAYLOAD_BYTES, Run, Site, Transfer, content, full_frames,
    one_switch,
};
use ethbcast_lab::LabConfig;
use ethbcast_planning::topology::Topology;
use serde_json::Value;
use std::fs;
use std::process::Stdio;
use std::sync::Arc;

const PATHS: [&str; 2] = ["chain", "cast"];
/// Bytes that fit into one frame behind the hash list of one chunk.
const ONE_FRAME: usize = PAYLOAD_BYTES - 56;
/// Sizes of files: no bytes, one byte, a frame short of one byte, a full frame, one byte more, and
/// many frames.
const SIZES: [usize; 6] = [0, 1, ONE_FRAME - 1, ONE_FRAME, ONE_FRAME + 1, MEBIBYTE];
/// The root and 7 receivers.
const HOSTS: usize = 8;

/// Returns the frames of a stream: full ones, the rest, and the trailer with length and digest.
fn frames(bytes: usize, payload_bytes: usize) -> u64 {
    full_frames(bytes, payload_bytes) + 1
}

/// Sends all sizes and 12 MiB by both algorithms, and passes each verified outcome to `judge`.
fn every_size_by_both_paths(site: &Site, mut judge: impl FnMut(&str, usize, &Outcome)) {
    for bytes in SIZES.into_iter().chain([12 * MEBIBYTE]) {
        let content = Arc::new(content(bytes as u64, bytes));
        for via in PATHS {
            let outcome = Transfer::new(site, Arc::clone(&content)).via(via).run();
            outcome.assert_verified();
            println!(
                "{bytes} bytes via {via}: {:.3} s, {} frames sent, {} again",
                outcome.seconds(),
                outcome.frames("data_sent"),
                outcome.frames("data_resent")
            );
            judge(via, bytes, &outcome);
        }
    }
}

/// A lab that leaves processor time to other tests, with this loss.
fn carrying(loss: f64) -> LabConfig {
    LabConfig {
        rate_bits_per_second: Some(100_000_000),
        loss,
        ..one_switch(HOSTS)
    }
}

#[test]
fn every_size_arrives_over_a_clean_wire_and_each_frame_is_sent_once() {
    let site = Site::beside("clean", carrying(0.0));
    every_size_by_both_paths(&site, |via, bytes, outcome| {
        let payload_bytes = outcome.payload_bytes();
        assert_eq!(
            outcome.frames("data_sent"),
            frames(bytes, payload_bytes),
            "{bytes} bytes via {via}, {payload_bytes}"
        );
        // A cable without loss is not free of drops: on a busy machine acknowledgements are late,
        // and a ring overruns now and then.
        let resent = outcome.frames("data_resent");
        let tolerated = frames(bytes, payload_bytes) / 2 + 50;
        assert!(
            resent <= tolerated,
            "{resent} frames sent again without loss, {bytes} bytes via {via}"
        );
    });
}

#[test]
fn every_size_arrives_when_one_frame_in_a_hundred_is_lost() {
    let site = Site::beside("loss1", carrying(0.01));
    every_size_by_both_paths(&site, |via, bytes, outcome| {
        repairs_are_bounded(via, bytes, outcome, 0.01)
    });
}

#[test]
fn every_size_arrives_when_one_frame_in_ten_is_lost() {
    let site = Site::beside("loss10", carrying(0.1));
    every_size_by_both_paths(&site, |via, bytes, outcome| {
        repairs_are_bounded(via, bytes, outcome, 0.1)
    });
}

/// Checks that each lost frame costs about one more. On a busy machine rings also overrun and
/// acknowledgements are late (the exact cost is tested in simulations). The root of a chain repairs
/// for one receiver, that of a cast for all seven.
fn repairs_are_bounded(via: &str, bytes: usize, outcome: &Outcome, loss: f64) {
    let served = if via == "cast" { HOSTS - 1 } else { 1 };
    let lost =
        (frames(bytes, outcome.payload_bytes()) * served as u64) as f64 * loss / (1.0 - loss);
    let budget = 5.0 * lost + frames(bytes, outcome.payload_bytes()) as f64 / 2.0 + 100.0;
    let resent = outcome.frames("data_resent") as f64;
    assert!(
        resent <= budget,
        "{resent} frames sent again, budget {budget:.0}: {bytes} bytes via {via} at {loss} loss"
    );
}

/// Returns the time of `bytes` to all receivers relative to one receiver, for each algorithm, at
/// this cable rate.
fn shares_of_one(bytes: usize, rate_bits_per_second: u64) -> [f64; 2] {
    let cables = LabConfig {
        rate_bits_per_second: Some(rate_bits_per_second),
        ..one_switch(HOSTS)
    };
    let site = Site::beside("shaped", cables);
    let content = Arc::new(content(1, bytes));
    let limit_seconds =
        bytes as f64 * 8.0 / rate_bits_per_second as f64 * 1514.0 / PAYLOAD_BYTES as f64;
    let one = Transfer::new(&site, Arc::clone(&content))
        .receivers(&["n1"])
        .via("chain")
        .run();
    one.assert_verified();
    PATHS.map(|via| {
        let outcome = Transfer::new(&site, Arc::clone(&content)).via(via).run();
        outcome.assert_verified();
        let (share, limit) = (outcome.seconds() / one.seconds(), outcome.seconds() / limit_seconds);
        println!(
            "{bytes} bytes via {via} at {rate_bits_per_second} bit/s: {share:.3} x one receiver, {limit:.3} x the wire"
        );
        assert!(limit >= 0.99, "{limit:.3} x the wire's limit via {via}: faster than the cable");
        share
    })
}

#[test]
fn a_large_file_takes_about_as_long_as_its_frames_take_on_one_cable() {
    // A transfer to one host takes as long as one cable, so that the ratio is independent of the
    // load. Eight hosts on the two cores of a shared machine may carry no more than 50 Mbit/s in
    // total: the properties of a cable are visible at rates at which the cable is the limit. A
    // stream that is paced wrongly or repaired twice fails at every rate, and unicasts to each
    // would take seven times as long. (`ethbcast bench` prints the ratio to the wire's limit: the
    // goal is 1.06, as measured on a quiet machine.)
    let shares = [(64, 100), (32, 50), (16, 25), (8, 12)].map(|(mebibytes, megabits)| {
        move || shares_of_one(mebibytes * MEBIBYTE / 4, megabits * 1_000_000)
    });
    let holds = shares
        .iter()
        .any(|measure| measure().iter().all(|&share| share <= 2.0));
    assert!(holds, "more than 2 x what one receiver takes at every rate");
}

#[test]
fn four_switches_in_a_row_are_served_from_the_middle() {
    let topology = Topology::builtin("fig9-4").expect("a test bed");
    let site = Site::beside("middle", LabConfig::new(topology.clone()));
    let file = site.file("row.toml", topology.to_toml());
    let content = Arc::new(content(4, 2 * MEBIBYTE));
    // n8 is on s1: a chain must cover s1, both its neighbours and the switch behind one of them,
    // each cable once.
    for via in PATHS {
        Transfer::new(&site, Arc::clone(&content))
            .root("n8")
            .via(via)
            .send_option("--topology")
            .send_option(&file)
            .run()
            .assert_verified();
    }
}

#[test]
fn two_groups_on_one_wire_get_each_its_own_file() {
    let site = Site::beside("groups", one_switch(HOSTS));
    let red = Transfer::new(&site, content(1, 8 * MEBIBYTE))
        .root("n0")
        .receivers(&["n1", "n2", "n3"])
        .group("red")
        .via("cast");
    let blue = Transfer::new(&site, content(2, 8 * MEBIBYTE))
        .root("n4")
        .receivers(&["n5", "n6", "n7"])
        .group("blue")
        .via("chain");
    let (red, blue) = (red.start(), blue.start());
    let (red, blue) = (red.end(LIMIT), blue.end(LIMIT));
    red.assert_verified();
    blue.assert_verified();
    assert_ne!(red.root.json()["session"], blue.root.json()["session"]);
}

/// 1468 bytes in 120 µs are 100 Mbit/s; a switch that passes 500 broadcast frames per second makes
/// a cast 17 times as slow.
#[test]
fn without_a_path_given_the_prediction_decides() {
    let site = Site::beside("auto", one_switch(3));
    let points = "[[point]]\nbytes = 64\ngap_ns = 8000\nlatency_ns = 40000\n\
                  [[point]]\nbytes = 1468\ngap_ns = 120000\nlatency_ns = 40000\n";
    for (policed, via) in [
        ("", "cast"),
        ("cast_max_frames_per_second = 500\n", "chain"),
    ] {
        let calibration = site.file(
            "calibration.toml",
            format!("schema = 1\n{policed}{points}").as_bytes(),
        );
        let option = calibration.display().to_string();
        let outcome = Transfer::new(&site, content(3, MEBIBYTE))
            .send_option("--calibration")
            .send_option(&option)
            .run();
        outcome.assert_verified();
        let said = &outcome.root.stderr;
        assert_eq!(outcome.root.json()["via"], via, "{policed} {said}");
    }
}

/// Storm control at every port without the sender's knowledge is detected before the first frame.
#[test]
fn a_broadcast_that_switches_police_is_not_bet_on() {
    let site = Site::beside(
        "policed",
        LabConfig {
            rate_bits_per_second: Some(100_000_000),
            ..one_switch(HOSTS)
        },
    );
    let police = "add table netdev storm; \
                  add chain netdev storm in { type filter hook ingress device eth0 priority 0; }; \
                  add rule netdev storm in meta pkttype multicast limit rate over 500/second burst 20 packets drop";
    (1..HOSTS).for_each(|host| site.set_up(&format!("n{host}"), "nft", &[police]));
    let bytes = Arc::new(content(7, MEBIBYTE));
    let chain = Transfer::new(&site, Arc::clone(&bytes)).via("chain").run();
    let plain = Transfer::new(&site, Arc::clone(&bytes)).run();
    [&chain, &plain]
        .into_iter()
        .for_each(Outcome::assert_verified);
    let reason = plain.root.json()["reason"].to_string();
    println!(
        "chain {:.3} s, plain {:.3} s: {reason}",
        chain.seconds(),
        plain.seconds()
    );
    // A chain and two trees are predicted alike within what a busy processor changes.
    let via = plain.root.json()["via"].as_str().expect("a way").to_owned();
    assert!(["chain", "two-tree"].contains(&via.as_str()), "{reason}");
}

#[test]
fn a_pipe_into_send_comes_out_of_recv() {
    let site = Site::beside("pipe", one_switch(4));
    let bytes = content(5, 3 * MEBIBYTE + 1);
    let source = site.file("source.bin", &bytes);
    for via in PATHS {
        let receivers = ["n1", "n2", "n3"]
            .map(|host| site.start(host, &["recv", "-i", "eth0", "--max-wait", "20"], "-"));
        // A pipe's size is unknown in advance, unlike that of a file on stdin; `cat` provides a
        // true pipe.
        let mut cat = std::process::Command::new("cat")
            .arg(&source)
            .stdout(Stdio::piped())
            .spawn()
            .expect("cat starts");
        let mut send = site.ethbcast(
            "n0",
            ["send", "--json", "-i", "eth0", "-n", "3", "--via", via, "-"],
        );
        send.stdin(cat.stdout.take().expect("piped"));
        let root = Run::start("n0", send).end(LIMIT);
        assert!(cat.wait().expect("our child").success());
        root.assert_code(0);
        assert_eq!(root.json()["bytes"], bytes.len());
        for receiver in receivers {
            let ended = receiver.end(LIMIT);
            ended.assert_code(0);
            assert!(
                ended.stdout == bytes,
                "stdout carries the data and nothing else: {} of {} bytes",
                ended.stdout.len(),
                bytes.len()
            );
        }
    }
}

#[test]
fn larger_frames_carry_more_each() {
    for mtu_bytes in [9000, 65535] {
        let site = Site::beside(
            "jumbo",
            LabConfig {
                mtu_bytes,
                rate_bits_per_second: Some(100_000_000),
                ..one_switch(4)
            },
        );
        let content = Arc::new(content(6, 8 * MEBIBYTE));
        for via in PATHS {
            let outcome = Transfer::new(&site, Arc::clone(&content)).via(via).run();
            outcome.assert_verified();
            let report = outcome.root.json();
            let payload_bytes = outcome.payload_bytes_of(mtu_bytes as usize - 32);
            assert!(payload_bytes > 2 * PAYLOAD_BYTES, "{report}");
            assert_eq!(
                outcome.frames("data_sent"),
                frames(content.len(), payload_bytes),
                "{report}"
            );
        }
    }
}

#[test]
fn a_root_with_jumbo_frames_can_be_configured_to_send_small_ones() {
    let site = Site::beside(
        "mixed",
        LabConfig {
            mtu_bytes: 9000,
            ..one_switch(4)
        },
    );
    site.set_up("n2", "ip", &["link", "set", "eth0", "mtu", "1500"]);
    for via in PATHS {
        let outcome = Transfer::new(&site, content(7, MEBIBYTE))
            .via(via)
            .send_option("--mtu")
            .send_option("1500")
            .run();
        outcome.assert_verified();
        assert_eq!(
            outcome.frames("data_sent"),
            frames(MEBIBYTE, PAYLOAD_BYTES),
            "{via}"
        );
    }
}

/// Starts a receiver under another name.
fn called(site: &Site, host: &str, name: &str, options: &[&str]) -> Run {
    let arguments = [
        &["recv", "-i", "eth0", "--max-wait", "20", "--host", name],
        options,
    ]
    .concat();
    site.start(host, &arguments, site.path(host))
}

fn address(site: &Site, host: &str) -> String {
    let mut command = site.command(host, "cat");
    command.arg("/sys/class/net/eth0/address");
    Run::start(host, command)
        .end(LIMIT)
        .stdout_text()
        .trim()
        .to_owned()
}

fn text<'a>(rows: &'a Value, key: &str) -> Vec<&'a str> {
    rows.as_array()
        .expect("a list")
        .iter()
        .map(|row| row[key].as_str().unwrap_or("-"))
        .collect()
}

#[test]
fn short_and_full_names_of_any_case_are_one_hosts_and_a_file_may_list_them() {
    let site = Site::beside("full", one_switch(3));
    let source = site.file("source", "text");
    let list = site.file("list", "# both\nn1 \n\nn2.cluster.local\n");
    let list = format!("^{}", list.display());
    for hosts in ["n[1-2]", list.as_str()] {
        let receivers = [
            called(&site, "n1", "n1.cluster.local", &[]),
            called(&site, "n2", "N2", &[]),
        ]
        .map(|receiver| {
            receiver.wait_for_line("waiting for a sender");
            receiver
        });
        site.run("n0", &["hosts", "-i", "eth0", "--expect"], hosts)
            .assert_code(0);
        let root = site.run(
            "n0",
            &[
                "send",
                "--json",
                "-i",
                "eth0",
                "--max-wait",
                "10",
                "--hosts",
                hosts,
            ],
            &source,
        );
        root.assert_code(0);
        assert_eq!(
            text(&root.json()["receivers"], "host"),
            ["N2", "n1.cluster.local"]
        );
        assert_eq!(
            root.json()["left_out"],
            serde_json::json!([]),
            "both are known"
        );
        for (host, receiver) in ["n1", "n2"].into_iter().zip(receivers) {
            receiver.end(LIMIT).assert_code(0);
            fs::remove_file(site.path(host)).expect("received");
        }
    }
}

#[test]
fn hosts_that_share_a_name_are_named_by_address_and_who_did_not_take_part_is_sent_to_next() {
    let site = Site::beside("shared", one_switch(4));
    let (source, report) = (site.file("source", "text"), site.path("report.json"));
    let report = report.to_str().expect("UTF-8");
    let nodes = ["n1", "n2", "n3"].map(|host| format!("pc@{}", address(&site, host)));
    let send = |options: &[&str]| {
        site.run(
            "n0",
            &[
                &["send", "--json", "-i", "eth0", "--report", report],
                options,
            ]
            .concat(),
            &source,
        )
    };
    let receivers = ["n1", "n2"].map(|host| called(&site, host, "pc", &[]));
    let some = [
        "--hosts",
        &nodes.join(","),
        "--min-receivers",
        "2",
        "--max-wait",
        "3",
    ];
    let root = send(&some);
    root.assert_code(0);
    assert_eq!(text(&root.json()["receivers"], "host"), nodes[..2]);
    assert_eq!(text(&root.json()["left_out"], "host"), nodes[2..]);
    assert_eq!(text(&root.json()["left_out"], "status"), ["absent"]);
    assert!(
        root.stderr
            .contains(&format!("{} has not got it", nodes[2])),
        "{}",
        root.stderr
    );
    receivers
        .into_iter()
        .for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    // Another host of that name is not among those that lack it.
    let line = [
        "send",
        "--json",
        "-i",
        "eth0",
        "--report",
        report,
        "--only-missing",
        "--max-wait",
        "20",
    ];
    let root = site.start("n0", &line, &source);
    let other = called(&site, "n1", "pc", &["--once", "--force"]);
    root.wait_for_line(&format!("pc ({}) turned away: ", address(&site, "n1")));
    called(&site, "n3", "pc", &[]).end(LIMIT).assert_code(0);
    let root = root.end(LIMIT);
    root.assert_code(0);
    assert_eq!(text(&root.json()["receivers"], "host"), nodes[2..]);
    other.end(LIMIT).assert_code(2);
    send(&["--only-missing"]).assert_code(0);
}

const BYTES: usize = 4 << 20;
const RECEIVERS: [&str; 3] = ["n1", "n2", "n3"];
/// Fraction of frames lost at every host.
const LOSS: f64 = 0.01;
/// Expected number of frames lost in a transfer, over all receivers.
const LOST_FRAMES: f64 = (BYTES / PAYLOAD_BYTES * RECEIVERS.len()) as f64 * LOSS;

fn lossy() -> LabConfig {
    LabConfig {
        loss: LOSS,
        ..one_switch(1 + RECEIVERS.len())
    }
}

/// Returns a frame count of a receiver's report.
fn frames_at(outcome: &Outcome, host: &str, name: &str) -> u64 {
    outcome.receiver(host).json()["frames"][name]
        .as_u64()
        .expect("a number")
}

/// Runs a transfer by cast that all receivers have verified. Returns the frames discarded as out of
/// order as well.
fn cast(site: &Site, preset: &str, content: &Arc<Vec<u8>>) -> (Outcome, u64) {
    let outcome = Transfer::new(site, Arc::clone(content))
        .via("cast")
        .send_option("--preset")
        .send_option(preset)
        .run();
    outcome.assert_verified();
    assert_eq!(outcome.root.json()["preset"], preset);
    let dropped = RECEIVERS
        .map(|host| frames_at(&outcome, host, "out_of_order_dropped"))
        .iter()
        .sum();
    let (sent, resent) = (outcome.frames("data_sent"), outcome.frames("data_resent"));
    println!(
        "{preset}: {:.3} s, {sent} frames sent, {resent} again, {dropped} thrown away",
        outcome.seconds()
    );
    (outcome, dropped)
}

#[test]
fn the_papers_broadcasts_deliver_over_a_lossy_wire_by_going_back_and_the_default_by_filling_holes()
{
    let site = Site::beside("preset", lossy());
    let content = Arc::new(content(1, BYTES));
    let (default, kept_everything) = cast(&site, "default", &content);
    assert_eq!(kept_everything, 0, "the default keeps what is out of order");
    // A lost frame costs a repair, by unicast or by cast, which may be lost as well. On a busy
    // machine rings also overrun and acknowledgements are late. (The exact cost is tested in
    // simulations.)
    let budget = 6.0 * LOST_FRAMES + (BYTES / PAYLOAD_BYTES) as f64 / 2.0 + 50.0;
    assert!(
        (default.frames("data_resent") as f64) < budget,
        "{budget}: {}",
        default.root.json()
    );

    for preset in ["paper", "push-pull"] {
        let (strict, thrown_away) = cast(&site, preset, &content);
        // Most losses leave the rest of a window of 16 out of order, and all of it is
        // retransmitted.
        assert!(
            thrown_away as f64 > LOST_FRAMES,
            "{thrown_away} frames thrown away of some {LOST_FRAMES:.0} lost"
        );
        let resent = strict.frames("data_resent") as f64;
        assert!(
            resent > 2.0 * LOST_FRAMES,
            "it goes back by up to a window: {resent}"
        );
        assert_eq!(
            strict.root.json()["surprise"],
            Value::Null,
            "the prediction is one of the default"
        );
    }
}

#[test]
fn the_papers_broadcasts_are_measured_and_say_so() {
    let site = Site::beside("presetperf", lossy());
    let measured = |preset: &str, more: &[&str]| {
        // All ranks of a communicator use one protocol.
        let member = [
            "perf",
            "-i",
            "eth0",
            "-n",
            "4",
            "--max-wait",
            "20",
            "--preset",
            preset,
        ];
        let members = RECEIVERS.map(|host| Run::start(host, site.ethbcast(host, member)));
        let arguments = [
            "perf", "-i", "eth0", "-n", "4", "--root", "--via", "cast", "--preset", preset,
            "--sizes", "256,64K",
        ];
        let arguments = arguments.iter().chain(&["--iterations", "20"]).chain(more);
        let root = Run::start("n0", site.ethbcast("n0", arguments)).end(LIMIT);
        root.assert_code(0);
        members
            .into_iter()
            .for_each(|member| member.end(LIMIT).assert_code(0));
        root
    };
    for preset in ["paper", "push-pull"] {
        let report = measured(preset, &["--json"]).json();
        println!("{report}");
        assert_eq!(
            (&report["via"], &report["preset"]),
            (&"cast".into(), &preset.into()),
            "{report}"
        );
        let results = report["results"].as_array().expect("a list");
        assert_eq!(
            results
                .iter()
                .map(|result| result["size"].as_u64())
                .collect::<Vec<_>>(),
            [Some(256), Some(64 << 10)]
        );
        for name in [
            "median",
            "barrier_median",
            "middle_80_percent_mean",
            "barrier_middle_80_percent_mean",
        ] {
            assert!(
                results
                    .iter()
                    .all(|result| result[name].as_f64().is_some_and(|seconds| seconds > 0.0)),
                "{name}: {report}"
            );
        }
    }
    let table = measured("paper", &[]).stdout_text();
    assert!(
        table.starts_with("4 ranks, preset paper, every broadcast verified"),
        "{table}"
    );
}
