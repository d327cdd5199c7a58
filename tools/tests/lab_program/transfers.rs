//! Real frames between hosts of a lab: every size, both algorithms, clean and lossy cables, and a
//! comparison of every byte.

use crate::harness::{
    Ethbcast, LIMIT, MEBIBYTE, Outcome, PAYLOAD_BYTES, Run, Site, Transfer, content, full_frames, one_switch,
};
use ethbcast_lab::LabConfig;
use ethbcast_planning::topology::Topology;
use std::process::Stdio;
use std::sync::Arc;

const PATHS: [&str; 2] = ["chain", "cast"];
/// Bytes that fit into one frame behind the ledger of one chunk.
const ONE_FRAME: usize = PAYLOAD_BYTES - 56;
/// No bytes, one byte, a frame short of one byte, a full frame, one byte more, and many frames.
const SIZES: [usize; 6] = [0, 1, ONE_FRAME - 1, ONE_FRAME, ONE_FRAME + 1, MEBIBYTE];
/// The root and 7 receivers.
const HOSTS: usize = 8;

/// Returns the frames of a stream: full ones, the rest, and the trailer with length and digest.
fn frames(bytes: usize, payload_bytes: usize) -> u64 {
    full_frames(bytes, payload_bytes) + 1
}

/// Sends all sizes and 24 MiB by both algorithms, and passes each verified outcome to `judge`.
fn every_size_by_both_paths(site: &Site, mut judge: impl FnMut(&str, usize, &Outcome)) {
    for bytes in SIZES.into_iter().chain([24 * MEBIBYTE]) {
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
    LabConfig { rate_bits_per_second: Some(100_000_000), loss, ..one_switch(HOSTS) }
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
        assert!(resent <= tolerated, "{resent} frames sent again without loss, {bytes} bytes via {via}");
    });
}

#[test]
fn every_size_arrives_when_one_frame_in_a_hundred_is_lost() {
    let site = Site::beside("loss1", carrying(0.01));
    every_size_by_both_paths(&site, |via, bytes, outcome| repairs_are_bounded(via, bytes, outcome, 0.01));
}

#[test]
fn every_size_arrives_when_one_frame_in_ten_is_lost() {
    let site = Site::beside("loss10", carrying(0.1));
    every_size_by_both_paths(&site, |via, bytes, outcome| repairs_are_bounded(via, bytes, outcome, 0.1));
}

/// Checks that each lost frame costs about one more. On a busy machine rings also overrun and
/// acknowledgements are late (the exact cost is tested in simulations). The root of a chain repairs
/// for one receiver, that of a cast for all seven.
fn repairs_are_bounded(via: &str, bytes: usize, outcome: &Outcome, loss: f64) {
    let served = if via == "cast" { HOSTS - 1 } else { 1 };
    let lost = (frames(bytes, outcome.payload_bytes()) * served as u64) as f64 * loss / (1.0 - loss);
    let budget = 5.0 * lost + frames(bytes, outcome.payload_bytes()) as f64 / 2.0 + 100.0;
    let resent = outcome.frames("data_resent") as f64;
    assert!(resent <= budget, "{resent} frames sent again, budget {budget:.0}: {bytes} bytes via {via} at {loss} loss");
}

/// Returns the time of `bytes` to all receivers relative to one receiver, for each algorithm, at
/// this cable rate.
fn shares_of_one(bytes: usize, rate_bits_per_second: u64) -> [f64; 2] {
    let cables = LabConfig { rate_bits_per_second: Some(rate_bits_per_second), ..one_switch(HOSTS) };
    let site = Site::beside("shaped", cables);
    let content = Arc::new(content(1, bytes));
    let limit_seconds = bytes as f64 * 8.0 / rate_bits_per_second as f64 * 1514.0 / PAYLOAD_BYTES as f64;
    let one = Transfer::new(&site, Arc::clone(&content)).receivers(&["n1"]).via("chain").run();
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
    let shares = [(64, 100), (32, 50), (16, 25), (8, 12)]
        .map(|(mebibytes, megabits)| move || shares_of_one(mebibytes * MEBIBYTE / 4, megabits * 1_000_000));
    let holds = shares.iter().any(|measure| measure().iter().all(|&share| share <= 2.0));
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
    for (policed, via) in [("", "cast"), ("cast_max_frames_per_second = 500\n", "chain")] {
        let calibration = site.file("calibration.toml", format!("schema = 1\n{policed}{points}").as_bytes());
        let option = calibration.display().to_string();
        let outcome =
            Transfer::new(&site, content(3, MEBIBYTE)).send_option("--calibration").send_option(&option).run();
        outcome.assert_verified();
        assert_eq!(outcome.root.json()["via"], via, "{policed}");
    }
}

/// Storm control at every port without the sender's knowledge is detected before the first frame.
#[test]
fn a_broadcast_that_switches_police_is_not_bet_on() {
    let site = Site::beside("policed", LabConfig { rate_bits_per_second: Some(100_000_000), ..one_switch(HOSTS) });
    let police = "add table netdev storm; \
                  add chain netdev storm in { type filter hook ingress device eth0 priority 0; }; \
                  add rule netdev storm in meta pkttype multicast limit rate over 500/second burst 20 packets drop";
    (1..HOSTS).for_each(|host| site.set_up(&format!("n{host}"), "nft", &[police]));
    let bytes = Arc::new(content(7, MEBIBYTE));
    let chain = Transfer::new(&site, Arc::clone(&bytes)).via("chain").run();
    let plain = Transfer::new(&site, Arc::clone(&bytes)).run();
    [&chain, &plain].into_iter().for_each(Outcome::assert_verified);
    let reason = plain.root.json()["reason"].to_string();
    println!("chain {:.3} s, plain {:.3} s: {reason}", chain.seconds(), plain.seconds());
    assert_eq!(plain.root.json()["via"], "chain", "{reason}");
}

#[test]
fn a_pipe_into_send_comes_out_of_recv() {
    let site = Site::beside("pipe", one_switch(4));
    let bytes = content(5, 3 * MEBIBYTE + 1);
    let source = site.file("source.bin", &bytes);
    for via in PATHS {
        let receivers =
            ["n1", "n2", "n3"].map(|host| site.start(host, &["recv", "-i", "eth0", "--max-wait", "20"], "-"));
        // A pipe's size is unknown in advance, unlike that of a file on stdin; `cat` provides a
        // true pipe.
        let mut cat =
            std::process::Command::new("cat").arg(&source).stdout(Stdio::piped()).spawn().expect("cat starts");
        let mut send = site.ethbcast("n0", ["send", "--json", "-i", "eth0", "-n", "3", "--via", via, "-"]);
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
        let site =
            Site::beside("jumbo", LabConfig { mtu_bytes, rate_bits_per_second: Some(100_000_000), ..one_switch(4) });
        let content = Arc::new(content(6, 8 * MEBIBYTE));
        for via in PATHS {
            let outcome = Transfer::new(&site, Arc::clone(&content)).via(via).run();
            outcome.assert_verified();
            let report = outcome.root.json();
            let payload_bytes = outcome.payload_bytes_of(mtu_bytes as usize - 32);
            assert!(payload_bytes > 2 * PAYLOAD_BYTES, "{report}");
            assert_eq!(outcome.frames("data_sent"), frames(content.len(), payload_bytes), "{report}");
        }
    }
}

#[test]
fn a_root_with_jumbo_frames_can_be_told_to_send_small_ones() {
    let site = Site::beside("mixed", LabConfig { mtu_bytes: 9000, ..one_switch(4) });
    site.set_up("n2", "ip", &["link", "set", "eth0", "mtu", "1500"]);
    for via in PATHS {
        let outcome =
            Transfer::new(&site, content(7, MEBIBYTE)).via(via).send_option("--mtu").send_option("1500").run();
        outcome.assert_verified();
        assert_eq!(outcome.frames("data_sent"), frames(MEBIBYTE, PAYLOAD_BYTES), "{via}");
    }
}
