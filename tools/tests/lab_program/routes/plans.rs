//! Plans, calibrations and topologies from files, valid and invalid, and a dry run.

use super::{BYTES, CALIBRATION, OTHERS, ROOT, ROW, Row, frames, predicted_seconds, row, text};
use crate::harness::{LIMIT, content};
use ethbcast_lab::LabConfig;

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
        assert_eq!(report["frames"]["data_sent"], frames(via, BYTES) * children, "{report}");
        assert!(predicted_seconds(&report) > 0.0, "{report}");
        row.assert_received(receivers, &bytes);
    }
}

#[test]
fn a_plan_that_was_changed_by_hand_is_run_as_it_stands() {
    let row = Row::up("edited", row());
    let bytes = content(6, BYTES);
    let source = row.site.file("source.bin", &bytes);
    // No planner makes this plan: to one end of the row first, then to the other.
    let edges = [("n2", "n5", 0), ("n2", "n0", 1), ("n5", "n1", 0), ("n0", "n4", 0), ("n0", "n3", 1)];
    let edges = edges
        .map(|(from, to, order)| format!("[[edge]]\nfrom = \"{from}\"\nto = \"{to}\"\norder = {order}\n"))
        .concat();
    let head = "schema = 1\nvia = \"binary\"\nroot = \"n2\"\nepoch = 1\nsegment_bytes = 5872\nmembers = \"n[0-5]\"\n";
    let file = row.site.file("plan.toml", format!("{head}{edges}"));
    let receivers = row.receivers(&OTHERS);
    let root = row.send(5, &["--json", "--plan", text(&file)], &source);
    root.assert_code(0);
    let report = root.json();
    assert_eq!((&report["via"], &report["segment_bytes"]), (&"binary".into(), &5872.into()), "{report}");
    row.assert_received(receivers, &bytes);
    for (host, sends) in [("n5", true), ("n1", false), ("n3", false), ("n4", false)] {
        let sent_bytes = row.site.lab().counters(host).expect("a host").sent_bytes;
        assert_eq!(sent_bytes > BYTES as u64, sends, "{host} put {sent_bytes} bytes on its cable");
    }
    let sent_bytes = row.site.lab().counters("n0").expect("a host").sent_bytes;
    assert!(sent_bytes > 2 * BYTES as u64, "n0 put {sent_bytes} bytes on its cable");
}

#[test]
fn what_a_contended_plan_takes_is_the_plans_doing() {
    let row = Row::up("contended", LabConfig { rate_bits_per_second: Some(50_000_000), ..row() });
    let bytes = content(8, BYTES);
    let source = row.site.file("source.bin", &bytes);
    // To and fro over both cables of the row.
    let edges = ["n2n5", "n5n3", "n3n4", "n4n0", "n0n1"].map(|edge| {
        let (from, to) = edge.split_at(2);
        format!("[[edge]]\nfrom = \"{from}\"\nto = \"{to}\"\norder = 0\n")
    });
    let head = "schema = 1\nvia = \"chain\"\nroot = \"n2\"\nepoch = 1\nsegment_bytes = 1468\nmembers = \"n[0-5]\"\n";
    let file = row.site.file("plan.toml", format!("{head}{}", edges.concat()));
    let told = ["--json", "--plan", text(&file), "--topology", text(&row.topology), "--calibration"];
    let told = [&told[..], &[text(&row.calibration)]].concat();
    let refused = row.send(5, &told[1..], &source);
    refused.assert_refusal(2, &["plan.toml:", "switch s1 to switch s2 (2 flows from 2 senders)"]);

    let receivers = row.receivers(&OTHERS);
    let root = row.send(5, &[&told[..], &["--allow-contention"]].concat(), &source);
    root.assert_code(0);
    let report = root.json();
    // The calibration is of a network twenty times as fast.
    let (surprise, cause) = (&report["surprise"], &report["limited_by"]);
    assert!(surprise.as_str().is_some_and(|text| text.contains(" % of the ") && !text.contains(':')), "{report}");
    let cause = cause.as_str().unwrap_or_default();
    assert!(cause.contains("s1") && cause.contains("over which the plan has 2 hosts send at a time"), "{report}");
    assert_eq!(report["contention"][0]["senders"], 2, "{report}");
    row.assert_received(receivers, &bytes);
}

#[test]
fn a_saved_plan_for_others_is_refused_and_the_receivers_are_told() {
    let row = Row::up("others", row());
    let source = row.site.file("source", "text");
    let file = row.save("binary", "plan.toml");
    let file = text(&file);
    let refused = |receivers: &[&'static str], arguments: &[&str], parts: &[&str]| {
        let runs = row.receivers_of_one_session(receivers);
        row.send(receivers.len(), arguments, &source).assert_refusal(2, parts);
        for (host, run) in runs {
            run.end(LIMIT).assert_refusal(1, parts);
            assert!(!row.site.path(host).exists(), "{host} has something of a session that never began");
        }
    };
    refused(&["n0", "n1", "n3", "n4"], &["--plan", file], &["other members", "`n5` missing", "ethbcast plan --out"]);
    refused(&["n0"], &["--plan", file], &["other members", "`n[1,3-5]` missing"]);
    // n4 and n5 are present under other names.
    refused(&OTHERS, &["--plan", file, "--host", "m2"], &["other members", "`n2` missing", "`m2` not in the plan"]);

    let saved = std::fs::read_to_string(file).expect("it was saved");
    let later = row.site.file("later.toml", saved.replace("epoch = 1", "epoch = 2"));
    refused(&OTHERS, &["--plan", text(&later)], &["for epoch 2", "has epoch 1", "leave the plan file out"]);
    // n2 and n4 change places: the members are equal, and the bytes come from n4.
    let swapped = saved.replace("\"n2\"", "\"?\"").replace("\"n4\"", "\"n2\"").replace("\"?\"", "\"n4\"");
    let elsewhere = row.site.file("elsewhere.toml", swapped);
    refused(&OTHERS, &["--plan", text(&elsewhere)], &["sends from `n4`", "the root is `n2`", "--root n2"]);
}

#[test]
fn a_dry_run_says_why_sends_nothing_and_leaves_the_receivers_waiting() {
    let row = Row::up("dry", row());
    let bytes = content(7, BYTES);
    let source = row.site.file("source.bin", &bytes);
    let calibrated = ["--calibration", text(&row.calibration), "--topology", text(&row.topology)];
    let receivers = row.receivers(&OTHERS);

    let dry = row.send(5, &[&["--dry-run"][..], &calibrated].concat(), &source);
    dry.assert_code(0);
    let said = dry.stdout_text();
    let reason = said.lines().next().expect("a reason");
    assert!(reason.contains("predicted, next ") && reason.contains("segment"), "{said}");
    // With a known topology, plans that ignore it are no candidates; recursive doubling needs a
    // power of two.
    for via in ["chain", "binary", "kary=3", "cast", "flat", "binomial", "scatter-allgather", "latency"] {
        assert!(
            said.lines().skip(1).any(|line| line.split_whitespace().next() == Some(via)),
            "{via} is no candidate in {said}"
        );
    }
    let dry = row.send(5, &[&["--dry-run", "--json", "--via", "binary"][..], &calibrated].concat(), &source);
    dry.assert_code(0);
    let report = dry.json();
    assert_eq!(report["via"], "binary", "{report}");
    assert!(report["reason"].as_str().is_some_and(|reason| reason.starts_with("binary, as asked: ")), "{report}");
    assert_eq!(predicted_seconds(&report), predicted_seconds(&row.plan("binary", BYTES, &[])), "{report}");

    let sent_bytes = row.site.lab().counters(ROOT).expect("a host").sent_bytes;
    // The broadcast rate is unknown here: `auto` measures it with some hundred frames.
    assert!(sent_bytes < 400_000, "{sent_bytes} bytes were sent");
    assert!(OTHERS.into_iter().all(|host| !row.site.path(host).exists()), "somebody has something");

    let root = row.send(5, &["--json", "--via", "chain"], &source);
    root.assert_code(0);
    row.assert_received(receivers, &bytes);
}

#[test]
fn what_a_root_is_told_of_the_network_must_be_possible_and_about_itself() {
    let row = Row::up("refusals", row());
    let source = row.site.file("source", "text");
    let falling = row.site.file("falling.toml", FALLING);
    let parts = [FALLING_AT, "gaps that do not fall", "11999 ns for 65536 bytes", "12000 ns", "ethbcast probe"];
    row.send(5, &["--calibration", text(&falling)], &source).assert_refusal(2, &parts);
    let single = CALIBRATION.split("[[point]]").take(2).collect::<Vec<_>>().join("[[point]]");
    let single = row.site.file("single.toml", single);
    row.send(5, &["--calibration", text(&single)], &source)
        .assert_refusal(2, &["single.toml", "at least 2 sizes, found 1"]);
    let rootless = row.site.file("rootless.toml", ROW.replace("n[2-3]", "n[3,6]"));
    let parts = ["rootless.toml", "no host n2", "n[0-1,3", "--host"];
    row.send(5, &["--topology", text(&rootless)], &source).assert_refusal(2, &parts);
    // None of them waited for receivers or sent a frame.
    let sent = row.site.lab().counters(ROOT).expect("a host").sent_frames;
    assert_eq!(sent, 0, "frames on the wire");
}
