//! Tests of `ethbcast simulate` and of the reports that it prints.

use super::ended_here;
use crate::plan::Place;
use ethbcast_tests::lab::{Ended, scratch};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Size and rate of these simulations.
const SIZE: &[&str] = &["--size", "1M", "--rate", "100mbit"];
/// Length of a full frame at MTU 1500, its payload, and its overhead on a cable.
const FRAME_BYTES: f64 = 1514.0;
const PAYLOAD_BYTES: f64 = 1468.0;
const GAP_BYTES: f64 = 24.0;
/// Data frames of the message, with the end.
const FRAMES: f64 = 716.0;
/// Time of a full frame at 100 Mbit/s.
const FRAME_SECONDS: f64 = (FRAME_BYTES + GAP_BYTES) * 8.0 / 1e8;

/// A chain from the last host to the first, in segments of two frames.
const BACKWARDS: &str = "schema = 1\nvia = \"chain\"\nroot = \"n3\"\n\
    members = \"n[0-3]\"\nsegment_bytes = 2936\nepoch = 1\n\
    [[edge]]\nfrom = \"n3\"\nto = \"n2\"\norder = 0\n\
    [[edge]]\nfrom = \"n2\"\nto = \"n1\"\norder = 0\n\
    [[edge]]\nfrom = \"n1\"\nto = \"n0\"\norder = 0\n";

fn simulate(arguments: &[&str]) -> Ended {
    ended_here(&[&["simulate"], arguments].concat())
}

/// Returns the report of a successful simulation.
#[track_caller]
fn report(arguments: &[&str]) -> Value {
    let ended = simulate(&[arguments, SIZE, &["--json"]].concat());
    ended.assert_code(0);
    ended.json()
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns the load of one direction of a cable.
#[track_caller]
fn cable<'a>(report: &'a Value, from: &str, to: &str) -> &'a Value {
    let cables = report["cables"].as_array().expect("a list");
    let found = cables
        .iter()
        .find(|cable| cable["from"] == from && cable["to"] == to);
    found.unwrap_or_else(|| panic!("no cable from {from} to {to} in {report}"))
}

#[test]
fn a_chain_takes_the_time_of_one_copy_and_of_the_way_through_all_hosts() {
    let report = report(&["--topology", "fig9-4", "--via", "chain"]);
    let limit = (1_048_576.0 / PAYLOAD_BYTES).ceil() * FRAME_SECONDS;
    // 31 hops over two cables each and three more between switches; receive coalescing delays a
    // frame by up to 250 µs.
    let depth = (31.0 * 2.0 + 3.0) * FRAME_SECONDS + 31.0 * 250e-6;
    let seconds = number(&report["seconds"]);
    assert!(
        (limit..limit * 1.05 + depth).contains(&seconds),
        "{limit} + {depth}: {seconds}"
    );
    assert_eq!(
        report["frames"]["data_sent"],
        31.0 * FRAMES,
        "every frame crosses each of 31 edges once: {report}"
    );
    assert_eq!(report["frames"]["data_resent"], 0, "{report}");
}

#[test]
fn a_short_message_goes_down_a_chain_in_frames_that_are_not_full() {
    let place = Place::new();
    let seconds = |more: &[&str]| {
        let ended = simulate(
            &[
                &[
                    "--topology",
                    "fig9-4",
                    "--size",
                    "8K",
                    "--rate",
                    "100mbit",
                    "--json",
                ],
                more,
            ]
            .concat(),
        );
        ended.assert_code(0);
        number(&ended.json()["seconds"])
    };
    let saved = place.path("own.toml");
    let saved = saved.to_str().expect("UTF-8");
    let job = [
        "plan",
        "--topology",
        "fig9-4",
        "--root",
        "n0",
        "--size",
        "8K",
        "--via",
        "chain",
        "--out",
        saved,
    ];
    ended_here(&job).assert_code(0);
    let own = std::fs::read_to_string(saved).expect("a plan");
    let line = own
        .lines()
        .find(|line| line.starts_with("segment_bytes"))
        .expect("a segment");
    let full = place.file("full.toml", own.replace(line, "segment_bytes = 1468"));
    let full = seconds(&["--plan", full.to_str().expect("UTF-8")]);
    let short = seconds(&["--via", "chain"]);
    assert!(
        full > short * 1.8,
        "{full} s in full frames, {short} s in parts"
    );
}

#[test]
fn a_chain_that_knows_the_switches_does_not_care_how_hosts_are_spread() {
    let [filled, dealt] =
        ["fig9-4", "fig9-5"].map(|bed| report(&["--topology", bed, "--via", "chain"]));
    let [filled, dealt] = [&filled, &dealt].map(|report| number(&report["seconds"]));
    assert!(
        (dealt / filled - 1.0).abs() < 0.01,
        "{filled} s and {dealt} s"
    );
}

#[test]
fn a_chain_that_does_not_know_the_switches_takes_several_times_as_long() {
    let [aware, unaware] =
        ["chain", "chain-unaware"].map(|via| report(&["--topology", "fig9-5", "--via", via]));
    let [fast, slow] = [&aware, &unaware].map(|report| number(&report["seconds"]));
    assert!(slow > fast * 2.0, "{fast} s and {slow} s");
    // Hosts with neighbouring numbers are on neighbouring switches: eight edges cross each cable
    // between them.
    let crowded = number(&cable(&unaware, "s1", "s2")["bytes"]) / (FRAMES * FRAME_BYTES);
    assert!(crowded >= 8.0, "{crowded} copies");
}

#[test]
fn the_model_predicts_what_the_simulator_finds() {
    for via in ["chain", "binary", "kary=3", "cast", "flat", "binomial"] {
        for cables in [
            &["--topology", "fig9-4"][..],
            &["--topology", "fig9-4", "--lab"],
        ] {
            let report = report(&[cables, &["--via", via, "--compare"]].concat());
            let (seconds, predicted) = (
                number(&report["seconds"]),
                number(&report["predicted_seconds"]),
            );
            assert!(
                (predicted / seconds - 1.0).abs() < 0.1,
                "via {via}: {predicted} s predicted, {seconds} s simulated"
            );
        }
    }
}

/// Two switches 2 ms apart.
const FAR: &str = "schema = 1\n\
    [[switch]]\nname = \"a\"\nhosts = \"n[0-2]\"\nlinks = [{ to = \"b\", latency_ns = 2000000 }]\n\
    [[switch]]\nname = \"b\"\nhosts = \"n[3-5]\"\n";

#[test]
fn latencies_of_cables_and_pairs_count_in_the_simulator_and_in_the_model() {
    let place = Place::new();
    let file = |name: &str, text: String| {
        let path = place.file(name, text);
        path.to_str().expect("UTF-8").to_owned()
    };
    let near = file("near.toml", FAR.replace("2000000", "0"));
    let far = file("far.toml", FAR.to_owned());
    let pair = "[[pair]]\nswitches = [\"a\", \"b\"]\nlatency_ns = 2000000\n";
    let pairs = file("pairs.toml", FAR.replace("2000000", "0") + pair);
    for via in ["chain", "cast", "latency"] {
        let delivered = |topology: &str| {
            let report = report(&["--topology", topology, "--via", via, "--compare"]);
            ["delivered_seconds", "predicted_seconds"].map(|key| number(&report[key]))
        };
        let [near, far, pairs] = [&near, &far, &pairs].map(|topology| delivered(topology));
        for [delivered, predicted] in [far, pairs] {
            assert!(
                delivered - near[0] >= 0.0019,
                "{via}: {near:?}, {far:?}, {pairs:?}"
            );
            assert!(
                predicted - near[1] >= 0.0019,
                "{via}: {near:?}, {far:?}, {pairs:?}"
            );
            assert!(
                (predicted / delivered - 1.0).abs() < 0.1,
                "{via}: {far:?}, {pairs:?}"
            );
        }
    }
}

#[test]
fn a_transfer_uses_no_pair_that_cannot_talk() {
    let place = Place::new();
    let file = |name: &str, pairs: &str| {
        let path = place.file(name, FAR.to_owned() + pairs);
        path.to_str().expect("UTF-8").to_owned()
    };
    let between = file(
        "between.toml",
        "[[pair]]\nhosts = [\"n1\", \"n4\"]\ntalk = false\n\
         [[pair]]\nhosts = [\"n2\", \"n3\"]\ntalk = false\n",
    );
    for via in ["chain", "binary", "cast", "latency", "auto"] {
        // The simulator loses what these pairs send each other: the transfer would not end.
        let report = report(&["--topology", &between, "--via", via]);
        assert_eq!(report["hosts"], 6, "{via}: {report}");
    }
    let refused = |topology: &str, via: &str, words: &[&str]| {
        let arguments = ["--topology", topology, "--via", via, "--size", "64K"];
        simulate(&arguments).assert_refusal(2, words);
    };
    refused(
        &between,
        "chain-unaware",
        &["n2 and n3 cannot talk directly", "latency or auto"],
    );
    let root = file(
        "root.toml",
        "[[pair]]\nhosts = [\"n0\", \"n[4-5]\"]\ntalk = false\n",
    );
    // They do not hear the sender, so they are missing.
    simulate(&["--topology", &root, "--size", "64K"]).assert_refusal(3, &["not n[4-5]"]);
    let alone = file(
        "alone.toml",
        "[[pair]]\nhosts = [\"n5\", \"n[0-4]\"]\ntalk = false\n",
    );
    let plan = |more: &[&str]| {
        let plan = [
            "plan",
            "--topology",
            &alone,
            "--root",
            "n0",
            "--size",
            "64K",
        ];
        ended_here(&[&plan, more].concat())
    };
    plan(&[]).assert_refusal(2, &["no way leads from n0 to n5"]);
    let around = ["plan", "--topology", &root, "--root", "n0", "--size", "64K"];
    let ended = ended_here(&[&around[..], &["--via", "latency"]].concat());
    ended.assert_code(0);
    let own = place.file("own.toml", BACKWARDS);
    let own = own.to_str().expect("UTF-8");
    let silent = file(
        "silent.toml",
        "[[pair]]\nhosts = [\"n1\", \"n2\"]\ntalk = false\n",
    );
    let check = ["plan", "--topology", &silent, "--check", own];
    ended_here(&check).assert_refusal(2, &["own.toml:12", "n2 sends to n1"]);
    let fast = file(
        "fast.toml",
        "[[host]]\nname = \"n1\"\nrate = \"100mbit\"\ninjection_ns = 40000\n",
    );
    refused(&fast, "chain", &["injection_ns 40000 of host n1"]);
}

#[test]
fn a_saved_plan_is_run_as_it_was_saved() {
    let directory = ethbcast_tests::lab::scratch();
    let file = directory.path().join("plan.toml");
    std::fs::write(&file, BACKWARDS).expect("written");
    let report = report(&["--hosts", "4", "--plan", file.to_str().expect("UTF-8")]);
    assert_eq!(
        (&report["root"], &report["via"]),
        (&"n3".into(), &"chain".into()),
        "{report}"
    );
    assert_eq!(report["segment_bytes"], 2936, "{report}");
    assert!(
        number(&cable(&report, "n1", "s0")["frames"]) >= FRAMES,
        "n1 relays: {report}"
    );
    assert!(
        number(&cable(&report, "n0", "s0")["frames"]) < FRAMES / 2.0,
        "n0 is the last: {report}"
    );
    let other = [
        "--hosts",
        "5",
        "--size",
        "1",
        "--plan",
        file.to_str().expect("UTF-8"),
    ];
    simulate(&other).assert_refusal(2, &["n4", "not in the plan"]);
}

#[test]
fn a_chain_uses_no_cable_twice_and_a_cast_each_once() {
    let copy = |report: &Value, from: &str, to: &str| {
        number(&cable(report, from, to)["bytes"]) / (FRAMES * FRAME_BYTES)
    };
    let chain = report(&["--topology", "fig9-5", "--via", "chain"]);
    for load in chain["cables"].as_array().expect("a list") {
        // The cable carries at most one copy, and acknowledgements and heartbeats.
        let copies = number(&load["bytes"]) / (FRAMES * FRAME_BYTES);
        assert!(copies < 1.05 && number(&load["busy"]) <= 1.0, "{load}");
    }
    let cast = report(&["--topology", "fig9-5", "--via", "cast"]);
    for host in 1..32 {
        let (name, switch) = (format!("n{host}"), format!("s{}", host % 4));
        assert!(
            (0.99..1.05).contains(&copy(&chain, &switch, &name)),
            "chain to {name}"
        );
        assert!(
            (0.99..1.05).contains(&copy(&cast, &switch, &name)),
            "cast to {name}"
        );
        assert!(
            copy(&cast, &name, &switch) < 0.05,
            "nobody relays a cast: {name}"
        );
    }
    assert!(
        (0.99..1.05).contains(&copy(&cast, "n0", "s0")) && copy(&cast, "s0", "n0") < 0.2,
        "one copy leaves the root"
    );
    assert!(
        (0.99..1.05).contains(&copy(&cast, "s1", "s2")) && copy(&cast, "s2", "s1") < 0.1,
        "one copy passes the switches"
    );
}

#[test]
fn losses_are_repaired_and_the_same_seed_loses_the_same_frames() {
    for via in ["chain", "cast"] {
        let lossy = ["--hosts", "8", "--via", via, "--loss", "0.02"];
        let first = report(&lossy);
        assert!(
            number(&first["frames"]["data_resent"]) > 0.0 && number(&first["frames"]["lost"]) > 0.0,
            "{first}"
        );
        assert_eq!(first, report(&lossy), "the same run");
        assert_ne!(
            first,
            report(&[&lossy[..], &["--seed", "2"]].concat()),
            "another run"
        );
    }
}

#[test]
fn the_object_has_every_key_and_all_ways_make_a_table() {
    let report = report(&["--hosts", "4", "--root", "n2"]);
    assert_eq!(
        (&report["schema"], &report["hosts"], &report["bytes"]),
        (&1.into(), &4.into(), &1_048_576.into())
    );
    assert!(
        report["via"].is_string()
            && report["topology"].is_string()
            && report["predicted_seconds"].is_null(),
        "{report}"
    );
    assert_eq!(
        number(&report["segment_bytes"]) % PAYLOAD_BYTES,
        0.0,
        "{report}"
    );
    let goodput = 1_048_576.0 * 8.0 / number(&report["seconds"]);
    assert!(
        (number(&report["goodput_bits_per_second"]) / goodput - 1.0).abs() < 1e-6,
        "{report}"
    );
    for name in [
        "data_sent",
        "data_resent",
        "control_sent",
        "control_received",
    ] {
        assert!(report["frames"][name].is_u64(), "{name}: {report}");
    }
    assert_eq!(
        report["cables"].as_array().map(Vec::len),
        Some(8),
        "both directions of four cables"
    );
    let table = simulate(&["--hosts", "6", "--size", "64K", "--via", "all"]);
    table.assert_code(0);
    for via in [
        "chain ",
        "binary ",
        "kary=3 ",
        "cast ",
        "flat ",
        "binomial ",
        "scatter-allgather ",
        "recursive-doubling ",
        "latency ",
        "two-tree ",
    ] {
        assert!(
            table
                .stdout_text()
                .lines()
                .any(|line| line.starts_with(via)),
            "{via}: {}",
            table.stdout_text()
        );
    }
}

#[test]
fn a_thousand_hosts_are_no_trouble() {
    let report = report(&["--hosts", "1000", "--via", "cast"]);
    assert_eq!(
        report["frames"]["data_sent"], FRAMES,
        "{}",
        report["frames"]
    );
    assert!(
        number(&report["seconds"]) < 2.0 * FRAMES * FRAME_SECONDS,
        "{}",
        report["seconds"]
    );
}

/// Limit on the page of 100 hosts, in bytes.
const MAX_BYTES: usize = 500_000;
/// Names that would be harmful without escaping.
const HOSTILE: [&str; 7] = [
    "<script>alert(1)</script>",
    "\"><svg onload=alert(1)>",
    "n1' style='background:url(https://example.org)",
    "&amp;&lt;b&gt;]]>",
    "n\u{202E}1\u{7}\n2",
    "</title></style><iframe src=//example.org>",
    "\u{FFFF}\u{0}",
];

/// Creates the report of a run to these hosts with the maximum number of samples; the last host has
/// died.
fn run_of(hosts: &[String]) -> Value {
    let (bytes, seconds) = (1_u64 << 30, 20.0);
    let moments: Vec<f64> = (1..=200).map(|at| f64::from(at) * 0.1).collect();
    let died = hosts.len() - 1;
    let receivers = hosts.iter().enumerate().map(|(at, host)| {
        let status = if at == died { "died" } else { "verified" };
        json!({ "host": host, "rank": at + 1, "status": status, "bytes": if at == died { 0 } else { bytes },
                "seconds": if at == died { 11.0 } else { 19.0 + at as f64 / 100.0 }, "reason": host })
    });
    // No points on a straight line, so that all are drawn.
    let track = |(at, host): (usize, &String)| {
        let wiggle = |moment: usize| (moment * 7919 + at * 104_729) % 997 * 4000;
        let there: Vec<u64> = (1..=200)
            .map(|moment| (moment * 5_000_000 + wiggle(moment)) as u64)
            .collect();
        json!({ "host": host, "bytes": there, "states": "a".repeat(200) })
    };
    let chain = std::iter::once("n0")
        .chain(hosts.iter().map(String::as_str))
        .collect::<Vec<_>>();
    let edges: Vec<Value> = chain
        .windows(2)
        .map(|two| json!({ "from": two[0], "to": two[1], "order": 0 }))
        .collect();
    json!({
        "schema": 1, "session": "0000002a", "bytes": bytes, "seconds": seconds, "total_seconds": 21.0,
        "goodput_bits_per_second": 4.3e8, "blake3": "ab", "via": "chain", "predicted_seconds": 18.0,
        "reason": hosts[0], "surprise": hosts[0], "segment_bytes": 1468,
        "frames": { "data_sent": 700_000, "data_resent": 70, "control_sent": 1, "control_received": 2 },
        "receivers": receivers.collect::<Vec<_>>(),
        "damaged": [{ "at": 0, "bytes": 65536, "from": hosts[0], "to": [hosts[1]] }],
        "left_out": [{ "host": hosts[0], "reason": hosts[1] }],
        "run": {
            "version": "0.1.0", "command": ["ethbcast", "send", hosts[0]], "began": "2026-01-01T00:00:00Z",
            "source": hosts[0], "group": hosts[0], "root": "n0", "interface": "eth0", "mtu_bytes": 1500,
            "topology": null, "plan": { "via": "chain", "hosts": chain, "edges": edges },
            "candidates": [
                { "via": "chain", "predicted_seconds": 18.0 }, { "via": hosts[0], "predicted_seconds": 19.0 },
            ],
            "timeline": {
                "seconds": moments, "sent_bytes": vec![bytes; 200], "resent_frames": vec![0; 200],
                "receivers": hosts.iter().enumerate().map(track).collect::<Vec<_>>(),
                "incidents": [{ "seconds": 11.0, "kind": "failed", "hosts": [hosts[died]], "text": hosts[0] }],
            },
        },
    })
}

fn hostile_hosts(count: usize) -> Vec<String> {
    (0..count)
        .map(|at| format!("{}{at}", HOSTILE[at % HOSTILE.len()]))
        .collect()
}

/// Runs `ethbcast report` on this text.
fn ended_with(directory: &Path, text: &str) -> Ended {
    let file = directory.join("run.json");
    fs::write(&file, text).expect("written");
    ended_here(&["report", file.to_str().expect("a path in UTF-8")])
}

fn page_of(report: &Value) -> String {
    let directory = scratch();
    let ended = ended_with(directory.path(), &report.to_string());
    ended.assert_code(0);
    ended.stdout_text()
}

/// Parses the pictures of a page as XML.
fn pictures(page: &str) -> Vec<roxmltree::Document<'_>> {
    let parts = page.split("<svg").skip(1).map(|part| {
        let end = part.find("</svg>").expect("a picture ends") + "</svg>".len();
        let at = part.as_ptr() as usize - page.as_ptr() as usize - "<svg".len();
        &page[at..at + "<svg".len() + end]
    });
    parts
        .map(|text| {
            roxmltree::Document::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
        })
        .collect()
}

#[test]
fn a_page_of_100_hosts_is_small_asks_for_nothing_and_names_all() {
    let hosts: Vec<String> = (1..=100).map(|at| format!("node-{at}.cluster")).collect();
    let page = page_of(&run_of(&hosts));
    assert!(page.len() <= MAX_BYTES, "{} bytes", page.len());
    for host in &hosts {
        assert!(
            page.matches(&format!(">{host}<")).count() >= 3,
            "{host}: in the course, the plan and the table"
        );
    }
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("default-src 'none'"));
    let outside = [
        "http:",
        "https:",
        "src=",
        "href=",
        "@import",
        "<script",
        "<link",
        "javascript:",
    ];
    let without_names = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    assert_eq!(
        outside.map(|word| without_names.matches(word).count()),
        [0; 8]
    );
    assert_eq!(
        page.matches("url(").count(),
        page.matches("url(#head)").count()
    );
    let pictures = pictures(&page);
    // All together, each host, the plan, and the four signs of its legend.
    assert_eq!(pictures.len(), 106);
    let points = |picture: &roxmltree::Document<'_>| {
        let paths = picture
            .descendants()
            .filter_map(|node| node.attribute("d"))
            .map(|path| path.matches('L').count());
        paths.max().unwrap_or_default()
    };
    assert!(
        points(&pictures[1]) > 150,
        "the course of a host is drawn: {}",
        points(&pictures[1])
    );
}

#[test]
fn no_name_and_no_text_is_anything_but_text() {
    let page = page_of(&run_of(&hostile_hosts(21)));
    for forbidden in [
        "<script",
        "<iframe",
        "onload=alert(1)>",
        "]]>",
        "\u{202E}",
        "\u{7}",
        "\u{0}",
        "\u{FFFF}",
    ] {
        assert!(!page.contains(forbidden), "{forbidden:?}");
    }
    assert!(
        page.contains("&lt;script&gt;alert(1)&lt;/script&gt;0"),
        "it is shown as it is"
    );
    assert!(
        page.contains("n\u{FFFD}1\u{FFFD}\u{FFFD}24"),
        "what is not seen is replaced"
    );
    assert_eq!(
        page.matches("</title>").count(),
        page.matches("<title>").count()
    );
    let tags = page
        .split('<')
        .skip(1)
        .filter_map(|part| part.split_once('>'))
        .map(|(tag, _)| tag);
    assert_eq!(
        tags.filter(|tag| tag.contains("example.org")).count(),
        0,
        "a name is in no tag"
    );
    let pictures = pictures(&page);
    assert_eq!(pictures.len(), 27);
    let elements = pictures
        .iter()
        .flat_map(|picture| picture.descendants())
        .filter(roxmltree::Node::is_element);
    let known = [
        "svg", "title", "path", "rect", "g", "text", "defs", "marker",
    ];
    let mut names: Vec<String> = elements
        .map(|element| element.tag_name().name().to_owned())
        .collect();
    names.retain(|name| !known.contains(&name.as_str()));
    assert_eq!(names, [""; 0]);
}

#[test]
fn a_report_of_another_version_is_refused_by_name() {
    let directory = scratch();
    let refused =
        |text: &str, parts: &[&str]| ended_with(directory.path(), text).assert_refusal(2, parts);
    refused(
        r#"{"schema":2,"receivers":[{"host":"n1"}]}"#,
        &["run.json is a report of version 2", "reads version 1"],
    );
    refused("{}", &["names no schema", "send --report run.json"]);
    refused("no json", &["is no report of `send`"]);
    refused(
        r#"{"schema":1,"error":"nobody","exit_code":3}"#,
        &["names no receivers"],
    );
    refused(r#"{"schema":1,"receivers":[]}"#, &["without receivers"]);
    refused(
        r#"{"schema":1,"receivers":[{"host":3}]}"#,
        &["is no report of `send`"],
    );
}

#[test]
fn numbers_and_plans_that_cannot_be_draw_no_page_that_breaks() {
    let hosts: Vec<String> = (1..=3).map(|at| format!("n{at}")).collect();
    let good = run_of(&hosts);
    let changes: [(&str, Value); 11] = [
        ("/seconds", json!(-1.0)),
        ("/seconds", json!(1e300)),
        ("/bytes", json!(u64::MAX)),
        ("/receivers/0/seconds", json!(-1e300)),
        ("/run/timeline/seconds", json!([3.0, 1.0, -2.0, 1e300])),
        (
            "/run/timeline/receivers/0/bytes",
            json!([u64::MAX, 0, u64::MAX]),
        ),
        ("/run/timeline/receivers/0/states", json!("ä")),
        ("/run/plan/edges/0/to", json!("n0")),
        ("/run/plan/hosts", json!([])),
        ("/run/plan/via", json!("scatter-allgather")),
        (
            "/run/topology",
            json!("schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"m[1-9]\"\n"),
        ),
    ];
    for (at, value) in changes {
        let mut report = good.clone();
        *report.pointer_mut(at).expect("it is there") = value;
        let page = page_of(&report);
        assert!(
            page.contains("</html>") && !page.contains("NaN") && !page.contains("inf "),
            "{at}"
        );
        assert!(pictures(&page).len() >= 4, "{at}");
    }
    let mut earlier = good;
    earlier.as_object_mut().expect("an object").remove("run");
    assert!(page_of(&earlier).contains("of an earlier ethbcast"));
}

#[test]
fn a_page_goes_into_a_file_that_can_be_written() {
    let directory = scratch();
    let report = directory.path().join("run.json");
    fs::write(
        &report,
        run_of(&["n1".to_owned(), "n2".to_owned()]).to_string(),
    )
    .expect("written");
    let page: PathBuf = directory.path().join("run.html");
    let text = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    let ended = ended_here(&["report", &text(&report), "--out", &text(&page)]);
    ended.assert_code(0);
    assert!(
        ended.stdout_text().is_empty()
            && fs::read_to_string(&page)
                .expect("written")
                .contains("</html>")
    );
    ended_here(&["report", &text(&report), "--out", "/nowhere/run.html"])
        .assert_refusal(4, &["/nowhere/run.html"]);
}
