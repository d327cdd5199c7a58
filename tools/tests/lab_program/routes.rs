//! Tests of every broadcast algorithm on real packet sockets: exact bytes, number of frames, loss,
//! deaths.

use crate::harness::{
    Ended, Ethbcast, LIMIT, MEBIBYTE, Outcome, PAYLOAD_BYTES, Run, Site, Transfer, content,
    full_frames,
};
use ethbcast_collectives::session::verified::Form;
use ethbcast_lab::LabConfig;
use ethbcast_planning::topology::Topology;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Size that is no multiple of a frame, a segment or a block.
const BYTES: usize = 3_000_001;
/// Root in the middle of the row, so that plans must go both ways.
const ROOT: &str = "n2";
const OTHERS: [&str; 5] = ["n0", "n1", "n3", "n4", "n5"];
/// All algorithms, with the number of hosts to which the root sends each frame in a plan for 6
/// hosts in a row of switches, where it is known beforehand.
const WAYS: [(&str, Option<u64>); 11] = [
    ("chain", Some(1)),
    ("binary", Some(2)),
    ("kary=3", Some(3)),
    ("cast", Some(1)),
    ("flat", Some(5)),
    ("binomial", Some(3)),
    // Each block is sent once, to its first host.
    ("scatter-allgather", Some(1)),
    ("recursive-doubling", Some(1)),
    ("chain-unaware", Some(1)),
    ("binary-unaware", Some(2)),
    ("latency", None),
];

/// Two hosts on each of three switches in a row.
const ROW: &str = "schema = 1\n\
    [[switch]]\nname = \"s0\"\nhosts = \"n[0-1]\"\nlinks = [\"s1\"]\n\
    [[switch]]\nname = \"s1\"\nhosts = \"n[2-3]\"\nlinks = [\"s2\"]\n\
    [[switch]]\nname = \"s2\"\nhosts = \"n[4-5]\"\n";

/// A calibration of a network of about 1 Gbit/s.
const CALIBRATION: &str = "schema = 1\n\
    [[point]]\nbytes = 256\ngap_ns = 4000\nlatency_ns = 20000\n\
    [[point]]\nbytes = 1468\ngap_ns = 12000\nlatency_ns = 30000\n\
    [[point]]\nbytes = 65536\ngap_ns = 540000\nlatency_ns = 30000\n";

/// Returns the lab's configuration, unshaped and without loss.
fn row() -> LabConfig {
    LabConfig::new(Topology::parse(ROW, "row.toml").expect("a good topology"))
}

/// A lab with its topology and a calibration in files.
struct Row {
    site: Site,
    topology: PathBuf,
    calibration: PathBuf,
}

impl Row {
    fn up(story: &str, config: LabConfig) -> Row {
        let site = Site::beside(story, config);
        let (topology, calibration) = (
            site.file("row.toml", ROW),
            site.file("calibration.toml", CALIBRATION),
        );
        Row {
            site,
            topology,
            calibration,
        }
    }

    /// Creates a transfer from the root to all others with the topology.
    fn transfer(&self, via: &'static str, content: &Arc<Vec<u8>>) -> Transfer<'_> {
        let transfer = Transfer::new(&self.site, Arc::clone(content))
            .root(ROOT)
            .via(via);
        transfer
            .send_option("--topology")
            .send_option(&self.topology)
    }

    /// Creates a transfer with the calibration, and so without a probe.
    fn calibrated(&self, via: &'static str, content: &Arc<Vec<u8>>) -> Transfer<'_> {
        self.transfer(via, content)
            .send_option("--calibration")
            .send_option(&self.calibration)
    }

    /// Returns the output of `ethbcast plan` for an equal transfer, with further arguments.
    fn plan(&self, via: &str, bytes: usize, more: &[&str]) -> Value {
        let size = bytes.to_string();
        let network = [
            "--topology",
            text(&self.topology),
            "--calibration",
            text(&self.calibration),
        ];
        let arguments = [
            "plan", "--root", ROOT, "--size", &size, "--via", via, "--json",
        ];
        let arguments = arguments.iter().chain(&network).chain(more);
        let ended = Run::start("plan", self.site.ethbcast(ROOT, arguments)).end(LIMIT);
        ended.assert_code(0);
        ended.json()
    }

    /// Saves a plan for all six hosts.
    fn save(&self, via: &str, name: &str) -> PathBuf {
        let path = self.site.path(name);
        self.plan(via, BYTES, &["--out", text(&path)]);
        path
    }

    fn receivers(&self, hosts: &[&'static str]) -> Vec<(&'static str, Run)> {
        self.start_receivers(hosts, &["recv", "-i", "eth0", "--max-wait", "30"])
    }

    /// Starts receivers that do not wait for a second session.
    fn receivers_of_one_session(&self, hosts: &[&'static str]) -> Vec<(&'static str, Run)> {
        self.start_receivers(hosts, &["recv", "--once", "-i", "eth0", "--max-wait", "30"])
    }

    fn start_receivers(
        &self,
        hosts: &[&'static str],
        arguments: &[&str],
    ) -> Vec<(&'static str, Run)> {
        hosts
            .iter()
            .map(|&host| (host, self.site.start(host, arguments, self.site.path(host))))
            .collect()
    }

    /// Sends a source from the root to `receivers` receivers, to the end.
    fn send(&self, receivers: usize, more: &[&str], source: &Path) -> Ended {
        let count = receivers.to_string();
        let arguments: Vec<&str> = ["send", "-i", "eth0", "--max-wait", "20", "-n", &count]
            .iter()
            .chain(more)
            .copied()
            .collect();
        self.site.run(ROOT, &arguments, source)
    }

    /// Fails unless all these receivers succeed with these bytes, and removes their files.
    fn assert_received(&self, receivers: Vec<(&'static str, Run)>, bytes: &[u8]) {
        for (host, run) in receivers {
            run.end(LIMIT).assert_code(0);
            let path = self.site.path(host);
            assert!(
                std::fs::read(&path).is_ok_and(|file| file == bytes),
                "the file on {host}"
            );
            std::fs::remove_file(path).expect("removed");
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Returns the number of full frames, the rest and the trailer; in blocks each of the six has a
/// trailer.
fn frames(via: &str, bytes: usize) -> u64 {
    let in_blocks = matches!(via, "scatter-allgather" | "recursive-doubling");
    full_frames(bytes, PAYLOAD_BYTES) + if in_blocks { 6 } else { 1 }
}

fn predicted_seconds(report: &Value) -> f64 {
    report["predicted_seconds"]
        .as_f64()
        .unwrap_or_else(|| panic!("no prediction in {report}"))
}

/// Returns the number of hosts to which a plan's root sends.
fn roots_children(plan: &Value) -> u64 {
    let edges = plan["edges"].as_array().expect("a list");
    edges.iter().filter(|edge| edge["from"] == ROOT).count() as u64
}

#[test]
fn every_way_delivers_the_exact_bytes_with_the_frames_its_plan_promises() {
    let row = Row::up("ways", row());
    let content = Arc::new(content(1, BYTES));
    for (via, promised) in WAYS {
        let plan = row.plan(via, BYTES, &[]);
        let outcome = row.calibrated(via, &content).run();
        outcome.assert_verified();
        let report = outcome.root.json();
        println!(
            "{via}: {:.3} s, {} frames, {} again",
            outcome.seconds(),
            outcome.frames("data_sent"),
            outcome.frames("data_resent")
        );
        let children = promised.unwrap_or_else(|| roots_children(&plan));
        assert_eq!(
            outcome.frames("data_sent"),
            frames(via, BYTES) * children,
            "{via}: {report}\nby plan {plan}"
        );
        assert_eq!(
            predicted_seconds(&report),
            predicted_seconds(&plan),
            "what is run is what was planned: {via}"
        );
        assert!(predicted_seconds(&report) > 0.0, "{via}: {report}");
        assert_eq!(report["segment_bytes"], plan["segment_bytes"], "{via}");
        // A cable without loss is not free of drops: on a busy machine acknowledgements are late,
        // and a ring overruns now and then.
        let resent = outcome.frames("data_resent");
        assert!(
            resent <= outcome.frames("data_sent") / 2,
            "{resent} frames sent again without loss via {via}"
        );
    }
}

#[test]
fn empty_and_one_byte_files_and_a_single_receiver_work_on_every_route() {
    let row = Row::up("least", row());
    for bytes in [0, 1, PAYLOAD_BYTES + 1] {
        let content = Arc::new(content(8, bytes));
        for (via, _) in WAYS {
            row.calibrated(via, &content).run().assert_verified();
        }
    }
    let content = Arc::new(content(9, 100_000));
    for (via, _) in WAYS {
        let outcome = row.calibrated(via, &content).receivers(&["n5"]).run();
        outcome.assert_verified();
        let blocks = if matches!(via, "scatter-allgather" | "recursive-doubling") {
            2
        } else {
            1
        };
        assert_eq!(
            outcome.frames("data_sent"),
            full_frames(content.len(), PAYLOAD_BYTES) + blocks,
            "{via}"
        );
    }
}

#[test]
fn four_hosts_double_what_they_have() {
    let row = Row::up("doubling", row());
    // Two blocks of 256 frames for each of the four, including hash lists.
    let bytes = Form::VERIFIED.content_bytes(8 * 256 * PAYLOAD_BYTES as u64);
    let content = Arc::new(content(10, bytes as usize));
    let outcome = row
        .calibrated("recursive-doubling", &content)
        .receivers(&["n0", "n3", "n5"])
        .run();
    outcome.assert_verified();
    assert_eq!(outcome.root.json()["segment_bytes"], 256 * PAYLOAD_BYTES);
    // The root sends its own blocks and its neighbour's to two other hosts each, the rest to one;
    // all with their end.
    assert_eq!(
        outcome.frames("data_sent"),
        (2 + 2 + 1 + 1) * (2 * 256 + 1),
        "{}",
        outcome.root.json()
    );
}

#[test]
fn without_a_calibration_the_network_is_probed_and_one_way_of_the_list_is_chosen() {
    let row = Row::up("auto", row());
    let content = Arc::new(content(2, BYTES));
    let outcome = row.transfer("auto", &content).run();
    outcome.assert_verified();
    let report = outcome.root.json();
    assert!(
        report["via"] == "two-tree" || WAYS.iter().any(|(via, _)| report["via"] == *via),
        "{report}"
    );
    // A probe on a busy host may end unsure, and then nothing is predicted.
    let unsure = report["reason"]
        .as_str()
        .is_some_and(|reason| reason.contains("no rates are known"));
    assert!(unsure || predicted_seconds(&report) > 0.0, "{report}");
    let unprobed = row
        .transfer("auto", &content)
        .send_option("--no-probe")
        .run();
    unprobed.assert_verified();
    let unprobed = unprobed.root.json();
    assert!(
        unprobed["predicted_seconds"].is_null(),
        "nothing was measured: {unprobed}"
    );
}

#[test]
fn trees_and_blocks_survive_the_loss_of_one_frame_in_a_hundred() {
    let row = Row::up(
        "loss",
        LabConfig {
            loss: 0.01,
            ..row()
        },
    );
    let content = Arc::new(content(3, BYTES));
    for (via, children) in [("binary", 2), ("binomial", 3), ("scatter-allgather", 1)] {
        let outcome = row.transfer(via, &content).run();
        outcome.assert_verified();
        let (sent, resent) = (outcome.frames("data_sent"), outcome.frames("data_resent"));
        println!(
            "{via}: {:.3} s, {sent} frames, {resent} again",
            outcome.seconds()
        );
        assert_eq!(sent, frames(via, BYTES) * children, "{via}");
        // Each lost frame costs about one more, beside the losses of a busy machine. (The exact
        // cost is tested in simulations.)
        let lost = sent as f64 * 0.01 / 0.99;
        let budget = 5.0 * lost + sent as f64 / 2.0 + 50.0;
        assert!(
            resent > 0 && resent as f64 <= budget,
            "{resent} frames sent again, budget {budget:.0}: {via}"
        );
    }
}

/// Returns a host that forwards its data.
fn relay(plan: &Value) -> &str {
    let edges = plan["edges"].as_array().expect("a list");
    let relay = edges
        .iter()
        .map(|edge| edge["from"].as_str().expect("a name"))
        .find(|&from| from != ROOT);
    relay.expect("somebody relays")
}

fn assert_all_but_one_are_served(outcome: &Outcome, dead: &str) {
    OTHERS
        .into_iter()
        .filter(|&host| host != dead)
        .for_each(|host| outcome.assert_delivered(host));
    outcome.root.assert_code(1);
    let blamed = format!("1 of 5 receivers failed: {dead} (died)");
    assert!(
        outcome.root.stderr.contains(&blamed),
        "{}",
        outcome.root.stderr
    );
    assert_eq!(outcome.status(dead), "died");
    outcome.forget_dead(dead);
}

#[test]
fn when_a_relay_of_a_tree_or_of_blocks_dies_the_others_are_served() {
    let row = Row::up(
        "relay",
        LabConfig {
            rate_bits_per_second: Some(50_000_000),
            ..row()
        },
    );
    let content = Arc::new(content(4, 8 * MEBIBYTE));
    for via in ["binary", "scatter-allgather"] {
        let plan = row.plan(via, content.len(), &[]);
        let dead = relay(&plan);
        let session = row.calibrated(via, &content).start();
        // In the middle of the transfer.
        session.wait_for_bytes(dead, 2 << 20);
        session.receiver(dead).signal(Signal::SIGKILL);
        let outcome = session.end(LIMIT);
        println!("{via} without {dead}: {:.3} s", outcome.seconds());
        assert_all_but_one_are_served(&outcome, dead);
    }
}

/// A calibration with a decreasing gap in line 12.
const FALLING: &str = "schema = 1\n\
    [[point]]\nbytes = 256\ngap_ns = 4000\nlatency_ns = 20000\n\
    [[point]]\nbytes = 1468\ngap_ns = 12000\nlatency_ns = 30000\n\
    [[point]]\nbytes = 65536\ngap_ns = 11999\nlatency_ns = 30000\n";
const FALLING_AT: &str = "falling.toml:12:";

#[test]
fn a_saved_plan_is_run_as_it_was_saved() {
    let row = Row::up("saved", row());
    let bytes = content(5, BYTES);
    let source = row.site.file("source.bin", &bytes);
    for (via, children) in [("binary", 2), ("kary=3", 3), ("chain-unaware", 1)] {
        let file = row.save(via, "plan.toml");
        let receivers = row.receivers(&OTHERS);
        let root = row.send(5, &["--json", "--plan", text(&file)], &source);
        root.assert_code(0);
        let report = root.json();
        assert_eq!(report["via"], via, "{report}");
        assert_eq!(
            report["frames"]["data_sent"],
            frames(via, BYTES) * children,
            "{report}"
        );
        row.assert_received(receivers, &bytes);
    }
}

#[test]
fn a_plan_that_was_changed_by_hand_is_run_as_it_stands() {
    let row = Row::up("edited", row());
    let bytes = content(6, BYTES);
    let source = row.site.file("source.bin", &bytes);
    // No planner makes this plan: to one end of the row first, then to the other.
    let edges = [
        ("n2", "n5", 0),
        ("n2", "n0", 1),
        ("n5", "n1", 0),
        ("n0", "n4", 0),
        ("n0", "n3", 1),
    ];
    let edges = edges
        .map(|(from, to, order)| {
            format!("[[edge]]\nfrom = \"{from}\"\nto = \"{to}\"\norder = {order}\n")
        })
        .concat();
    let head = "schema = 1\nvia = \"binary\"\nroot = \"n2\"\nepoch = 1\nsegment_bytes = 5872\nmembers = \"n[0-5]\"\n";
    let file = row.site.file("plan.toml", format!("{head}{edges}"));
    let receivers = row.receivers(&OTHERS);
    let root = row.send(5, &["--json", "--plan", text(&file)], &source);
    root.assert_code(0);
    let report = root.json();
    assert_eq!(
        (&report["via"], &report["segment_bytes"]),
        (&"binary".into(), &5872.into()),
        "{report}"
    );
    row.assert_received(receivers, &bytes);
    for (host, sends) in [("n5", true), ("n1", false), ("n3", false), ("n4", false)] {
        let sent_bytes = row.site.lab().counters(host).expect("a host").sent_bytes;
        assert_eq!(
            sent_bytes > BYTES as u64,
            sends,
            "{host} put {sent_bytes} bytes on its cable"
        );
    }
    let sent_bytes = row.site.lab().counters("n0").expect("a host").sent_bytes;
    assert!(
        sent_bytes > 2 * BYTES as u64,
        "n0 put {sent_bytes} bytes on its cable"
    );
}

#[test]
fn the_report_blames_a_contended_plan_for_its_time() {
    let row = Row::up(
        "contended",
        LabConfig {
            rate_bits_per_second: Some(50_000_000),
            ..row()
        },
    );
    let bytes = content(8, BYTES);
    let source = row.site.file("source.bin", &bytes);
    // To and fro over both cables of the row.
    let edges = ["n2n5", "n5n3", "n3n4", "n4n0", "n0n1"].map(|edge| {
        let (from, to) = edge.split_at(2);
        format!("[[edge]]\nfrom = \"{from}\"\nto = \"{to}\"\norder = 0\n")
    });
    let head = "schema = 1\nvia = \"chain\"\nroot = \"n2\"\nepoch = 1\nsegment_bytes = 1468\nmembers = \"n[0-5]\"\n";
    let file = row
        .site
        .file("plan.toml", format!("{head}{}", edges.concat()));
    let told = [
        "--json",
        "--plan",
        text(&file),
        "--topology",
        text(&row.topology),
        "--calibration",
    ];
    let told = [&told[..], &[text(&row.calibration)]].concat();
    let refused = row.send(5, &told[1..], &source);
    refused.assert_refusal(
        2,
        &[
            "plan.toml:",
            "switch s1 to switch s2 (2 flows from 2 senders)",
        ],
    );

    let receivers = row.receivers(&OTHERS);
    let root = row.send(5, &[&told[..], &["--allow-contention"]].concat(), &source);
    root.assert_code(0);
    let report = root.json();
    // The calibration is of a network twenty times as fast.
    let (surprise, cause) = (&report["surprise"], &report["limited_by"]);
    assert!(
        surprise
            .as_str()
            .is_some_and(|text| text.contains(" % of the ") && !text.contains(':')),
        "{report}"
    );
    let cause = cause.as_str().unwrap_or_default();
    assert!(
        cause.contains("s1") && cause.contains("over which the plan has 2 hosts send at a time"),
        "{report}"
    );
    assert_eq!(report["contention"][0]["senders"], 2, "{report}");
    row.assert_received(receivers, &bytes);
}

#[test]
fn a_saved_plan_for_others_is_refused_and_the_receivers_get_the_reason() {
    let row = Row::up("others", row());
    let source = row.site.file("source", "text");
    let file = row.save("binary", "plan.toml");
    let file = text(&file);
    let refused = |receivers: &[&'static str], arguments: &[&str], parts: &[&str]| {
        let runs = row.receivers_of_one_session(receivers);
        row.send(receivers.len(), arguments, &source)
            .assert_refusal(2, parts);
        for (host, run) in runs {
            run.end(LIMIT).assert_refusal(1, parts);
            assert!(
                !row.site.path(host).exists(),
                "{host} has something of a session that never began"
            );
        }
    };
    refused(
        &["n0", "n1", "n3", "n4"],
        &["--plan", file],
        &["other members", "`n5` missing", "ethbcast plan --out"],
    );
    refused(
        &["n0"],
        &["--plan", file],
        &["other members", "`n[1,3-5]` missing"],
    );
    // n4 and n5 are present under other names.
    refused(
        &OTHERS,
        &["--plan", file, "--host", "m2"],
        &["other members", "`n2` missing", "`m2` not in the plan"],
    );

    let saved = std::fs::read_to_string(file).expect("it was saved");
    let later = row
        .site
        .file("later.toml", saved.replace("epoch = 1", "epoch = 2"));
    refused(
        &OTHERS,
        &["--plan", text(&later)],
        &["for epoch 2", "has epoch 1", "leave the plan file out"],
    );
    // n2 and n4 change places: the members are equal, and the bytes come from n4.
    let swapped = saved
        .replace("\"n2\"", "\"?\"")
        .replace("\"n4\"", "\"n2\"")
        .replace("\"?\"", "\"n4\"");
    let elsewhere = row.site.file("elsewhere.toml", swapped);
    refused(
        &OTHERS,
        &["--plan", text(&elsewhere)],
        &["sends from `n4`", "the root is `n2`", "--root n2"],
    );
}

#[test]
fn a_dry_run_says_why_sends_nothing_and_leaves_the_receivers_waiting() {
    let row = Row::up("dry", row());
    let bytes = content(7, BYTES);
    let source = row.site.file("source.bin", &bytes);
    let calibrated = [
        "--calibration",
        text(&row.calibration),
        "--topology",
        text(&row.topology),
    ];
    let receivers = row.receivers(&OTHERS);

    let dry = row.send(5, &[&["--dry-run"][..], &calibrated].concat(), &source);
    dry.assert_code(0);
    let said = dry.stdout_text();
    let reason = said.lines().next().expect("a reason");
    assert!(
        reason.contains("predicted, next ") && reason.contains("segment"),
        "{said}"
    );
    // With a known topology, plans that ignore it are no candidates; recursive doubling needs a
    // power of two.
    for via in [
        "chain",
        "binary",
        "kary=3",
        "cast",
        "flat",
        "binomial",
        "scatter-allgather",
        "latency",
        "two-tree",
    ] {
        assert!(
            said.lines()
                .skip(1)
                .any(|line| line.split_whitespace().next() == Some(via)),
            "{via} is no candidate in {said}"
        );
    }
    let dry = row.send(
        5,
        &[&["--dry-run", "--json", "--via", "binary"][..], &calibrated].concat(),
        &source,
    );
    dry.assert_code(0);
    let report = dry.json();
    assert_eq!(report["via"], "binary", "{report}");
    assert!(
        report["reason"]
            .as_str()
            .is_some_and(|reason| reason.starts_with("binary, as asked: ")),
        "{report}"
    );
    assert_eq!(
        predicted_seconds(&report),
        predicted_seconds(&row.plan("binary", BYTES, &[])),
        "{report}"
    );

    let sent_bytes = row.site.lab().counters(ROOT).expect("a host").sent_bytes;
    // The effect of broadcast is unknown here: `auto` measures it, on a busy host more than once.
    assert!(sent_bytes < BYTES as u64, "{sent_bytes} bytes were sent");
    assert!(
        OTHERS.into_iter().all(|host| !row.site.path(host).exists()),
        "somebody has something"
    );

    let root = row.send(5, &["--json", "--via", "chain"], &source);
    root.assert_code(0);
    row.assert_received(receivers, &bytes);
}

#[test]
fn network_files_of_a_root_must_be_possible_and_about_itself() {
    let row = Row::up("refusals", row());
    let source = row.site.file("source", "text");
    let falling = row.site.file("falling.toml", FALLING);
    let parts = [
        FALLING_AT,
        "gaps that do not fall",
        "11999 ns for 65536 bytes",
        "12000 ns",
        "ethbcast probe",
    ];
    row.send(5, &["--calibration", text(&falling)], &source)
        .assert_refusal(2, &parts);
    let single = CALIBRATION
        .split("[[point]]")
        .take(2)
        .collect::<Vec<_>>()
        .join("[[point]]");
    let single = row.site.file("single.toml", single);
    row.send(5, &["--calibration", text(&single)], &source)
        .assert_refusal(2, &["single.toml", "at least 2 sizes, found 1"]);
    let rootless = row
        .site
        .file("rootless.toml", ROW.replace("n[2-3]", "n[3,6]"));
    let parts = ["rootless.toml", "no host n2", "n[0-1,3", "--host"];
    row.send(5, &["--topology", text(&rootless)], &source)
        .assert_refusal(2, &parts);
    // None of them waited for receivers or sent a frame.
    let sent = row.site.lab().counters(ROOT).expect("a host").sent_frames;
    assert_eq!(sent, 0, "frames on the wire");
}
