//! `ethbcast perf` on real frames: its report, its cost on the wire, and its end when a rank
//! vanishes.

use crate::harness::{Ended, Ethbcast, LIMIT, Run, Site, one_switch, within};
use ethbcast_lab::LabConfig;
use ethbcast_planning::plan::Via;
use ethbcast_planning::topology::Topology;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::time::Duration;

const ROOT: &str = "n0";
const OTHERS: [&str; 3] = ["n1", "n2", "n3"];
const RANKS: u64 = 4;
/// Starts a rank other than the root.
fn member(site: &Site, host: &str) -> Run {
    Run::start(host, site.ethbcast(host, ["perf", "-i", "eth0", "-n", "4", "--max-wait", "20"]))
}

/// Starts the root with further arguments.
fn root(site: &Site, more: &[&str]) -> Run {
    let arguments = ["perf", "-i", "eth0", "-n", "4", "--root", "--json"];
    Run::start(ROOT, site.ethbcast(ROOT, arguments.iter().chain(more)))
}

/// Runs four ranks, all of which must succeed, and returns the root's report.
fn measured(site: &Site, more: &[&str]) -> Value {
    let members = OTHERS.map(|host| member(site, host));
    let root = root(site, more).end(LIMIT);
    root.assert_code(0);
    members.into_iter().for_each(|member| member.end(LIMIT).assert_code(0));
    root.json()
}

#[track_caller]
fn seconds(result: &Value, name: &str) -> f64 {
    let seconds = result[name].as_f64().unwrap_or_else(|| panic!("{name} is no number in {result}"));
    assert!(seconds > 0.0 && seconds.is_finite(), "{name} in {result}");
    seconds
}

/// Fails unless a report has all documented fields, consistent with each other; `via` is the
/// requested algorithm.
#[track_caller]
fn assert_report(report: &Value, via: &str, sizes: &[u64]) {
    assert_eq!(
        (&report["schema"], &report["ranks"], &report["via"]),
        (&1.into(), &RANKS.into(), &via.into()),
        "{report}"
    );
    assert_eq!((&report["op"], &report["preset"]), (&"bcast".into(), &"default".into()), "{report}");
    let results = report["results"].as_array().expect("a list");
    let measured: Vec<u64> = results.iter().map(|result| result["size"].as_u64().expect("a number")).collect();
    assert_eq!(measured, sizes, "{report}");
    for result in results {
        let run = result["via"].as_str().expect("a word");
        assert!(if via == "auto" { run.parse::<Via>().is_ok() } else { run == via }, "{report}");
        let [mean, min, median, p99] = ["bcast_seconds", "min", "median", "p99"].map(|name| seconds(result, name));
        assert!(min <= median && median <= p99 && (min..=p99).contains(&mean), "{result}");
        let middle = seconds(result, "middle_80_percent_mean");
        assert!((min..=p99).contains(&middle), "{result}");
        assert!(result["goodput_bits_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{result}");
        for name in ["barrier_seconds", "barrier_median", "barrier_p99", "barrier_middle_80_percent_mean"] {
            seconds(result, name);
        }
        seconds(result, "predicted_seconds");
        assert!(result["segment_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{result}");
    }
}

#[test]
fn sizes_are_measured_one_after_the_other_and_a_barrier_is_shorter_than_a_broadcast() {
    // A mebibyte takes 170 ms of each cable.
    let site = Site::beside("perf", LabConfig { rate_bits_per_second: Some(50_000_000), ..one_switch(4) });
    let report = measured(&site, &["--sizes", "256,4K,1M", "--iterations", "10"]);
    println!("{report}");
    assert_report(&report, "auto", &[256, 4096, 1 << 20]);
    let large = &report["results"][2];
    assert!(seconds(large, "barrier_median") < seconds(large, "median"), "{large}");
    assert!(seconds(large, "min") > seconds(&report["results"][0], "min"), "more bytes take longer: {report}");
}

#[test]
fn every_way_is_measured_with_every_byte_verified() {
    let topology = "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n[0-1]\"\nlinks = [\"s1\"]\n\
        [[switch]]\nname = \"s1\"\nhosts = \"n[2-3]\"\n";
    let site =
        Site::beside("perfways", LabConfig::new(Topology::parse(topology, "two.toml").expect("a good topology")));
    let file = site.file("two.toml", topology);
    for via in Via::ALL.iter().map(Via::to_string).chain(["auto".to_owned()]) {
        let file = file.to_str().expect("UTF-8");
        let report = measured(&site, &["--via", &via, "--sizes", "256,100K", "--iterations", "3", "--topology", file]);
        assert_report(&report, &via, &[256, 100 << 10]);
    }
}

#[test]
fn a_saved_plan_is_measured_and_refused_on_all_ranks_where_it_is_for_others() {
    let site = Site::beside("perfplan", one_switch(4));
    let plan = |hosts: &str, edges: [(&str, &str); 3]| {
        let edge = |(from, to): (&str, &str)| format!("[[edge]]\nfrom = \"{from}\"\nto = \"{to}\"\norder = 0\n");
        let edges: String = edges.map(edge).concat();
        format!(
            "schema = 1\nvia = \"chain\"\nroot = \"n0\"\nepoch = 1\nsegment_bytes = 1468\n\
             members = \"{hosts}\"\n{edges}"
        )
    };
    let good = site.file("plan.toml", plan("n[0-3]", [("n0", "n2"), ("n2", "n1"), ("n1", "n3")]));
    let good = good.to_str().expect("UTF-8");
    let report = measured(&site, &["--plan", good, "--sizes", "256,100K", "--iterations", "3"]);
    assert_eq!((&report["results"][0]["via"], &report["results"][1]["via"]), (&"chain".into(), &"chain".into()));
    let other = site.file("other.toml", plan("n[0-2,7]", [("n0", "n2"), ("n2", "n1"), ("n1", "n7")]));
    let members = OTHERS.map(|host| member(&site, host));
    let ended = root(&site, &["--plan", other.to_str().expect("UTF-8")]).end(LIMIT);
    ended.assert_refusal(2, &["other.toml:6", "`n7` missing", "`n3` not in the plan"]);
    members.into_iter().for_each(|member| member.end(LIMIT).assert_refusal(2, &["n0 cannot take part"]));
}

#[test]
fn without_json_there_is_a_table_and_every_rank_says_what_it_saw() {
    let site = Site::beside("perftable", one_switch(4));
    let members = OTHERS.map(|host| member(&site, host));
    let arguments = ["perf", "-i", "eth0", "-n", "4", "--root", "--sizes", "256,4K", "--iterations", "5"];
    let root = Run::start(ROOT, site.ethbcast(ROOT, arguments)).end(LIMIT);
    root.assert_code(0);
    let table = root.stdout_text();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4, "a title, a head and a line for each size: {table}");
    assert!(lines[0].starts_with("4 ranks") && lines[0].contains("verified by every rank"), "{table}");
    assert!(
        ["bcast+bar", "barrier", "min", "median", "p99", "middle80", "Mbit/s"]
            .iter()
            .all(|name| lines[1].contains(name)),
        "{table}"
    );
    assert!(lines[2].contains("256 B") && lines[3].contains("4.00 KiB"), "{table}");
    for member in members {
        let ended = member.end(LIMIT);
        ended.assert_code(0);
        assert_eq!(ended.stdout_text(), "", "the report is the root's");
        assert_eq!(ended.stderr.lines().filter(|line| line.contains("5 verified")).count(), 2, "{}", ended.stderr);
    }
}

#[test]
fn a_rank_that_is_missing_ends_the_run_in_time() {
    let site = Site::beside("perfmiss", one_switch(4));
    let start =
        |host: &str| Run::start(host, site.ethbcast(host, ["perf", "-i", "eth0", "-n", "4", "--max-wait", "2"]));
    let members = ["n1", "n2"].map(start);
    let ended = root(&site, &["--max-wait", "2"]).end(LIMIT);
    ended.assert_refusal(3, &["3 of 4", "n0, n1, n2"]);
    assert!(ended.took >= Duration::from_secs(2), "{:?}", ended.took);
    // Each waits as long as requested, because a missing rank may be restarted.
    for member in members {
        member.end(LIMIT).assert_refusal(3, &["of 4 were there"]);
    }
}

#[test]
fn ranks_without_a_root_give_up_in_time() {
    let site = Site::beside("perfroot", one_switch(4));
    let started =
        |host: &str| Run::start(host, site.ethbcast(host, ["perf", "-i", "eth0", "-n", "4", "--max-wait", "1"]));
    let ended: Vec<Ended> = OTHERS.map(started).map(|run| run.end(LIMIT)).into();
    for ended in ended {
        ended.assert_refusal(3, &["3 of 4", "n1, n2, n3", "start the others", "group"]);
        assert!(ended.took >= Duration::from_secs(1), "{:?}", ended.took);
    }
}

#[test]
fn a_rank_that_is_killed_or_stopped_is_named_and_ends_the_run_for_all() {
    let site = Site::beside("perfkill", LabConfig { rate_bits_per_second: Some(50_000_000), ..one_switch(4) });
    for (via, signal) in [("chain", Signal::SIGKILL), ("cast", Signal::SIGKILL), ("chain", Signal::SIGSTOP)] {
        let before = site.lab().counters("n2").expect("a host").received_bytes;
        let mut members: Vec<Run> = OTHERS.map(|host| member(&site, host)).into();
        let root = root(&site, &["--via", via, "--sizes", "1M", "--iterations", "1000", "--no-probe"]);
        // In the middle of its third broadcast or later; a thousand take minutes.
        let received = || site.lab().counters("n2").expect("a host").received_bytes - before;
        within(LIMIT, || (received() > 5 << 19).then_some(())).expect("n2 receives");
        let dead = members.remove(1);
        dead.signal(signal);
        let ended = root.end(LIMIT);
        ended.assert_refusal(1, &["n2", "silent"]);
        for member in members {
            member.end(LIMIT).assert_refusal(1, &["n2", "silent"]);
        }
        dead.signal(Signal::SIGKILL);
        dead.end(LIMIT).assert_code(137);
    }
}

#[test]
fn ctrl_c_at_the_root_of_a_measurement_sends_everybody_home() {
    let site = Site::beside("perfint", one_switch(4));
    let members = OTHERS.map(|host| member(&site, host));
    let root = root(&site, &["--sizes", "256,4K", "--iterations", "1000000", "--no-probe"]);
    within(LIMIT, || (site.lab().counters("n2").expect("a host").received_frames > 1000).then_some(()))
        .expect("n2 receives");
    root.signal(Signal::SIGINT);
    root.end(LIMIT).assert_refusal(130, &["interrupted"]);
    for member in members {
        member.end(LIMIT).assert_refusal(1, &["n0", "has left"]);
    }
}

/// Returns the frames of the root, and of the other three together, in a run of `iterations`.
fn frames_of(site: &Site, iterations: u64) -> (u64, u64) {
    let sent = |host: &str| site.lab().counters(host).expect("a host").sent_frames;
    let all = || (sent(ROOT), OTHERS.into_iter().map(sent).sum::<u64>());
    let before = all();
    let report =
        measured(site, &["--via", "cast", "--sizes", "256", "--iterations", &iterations.to_string(), "--no-probe"]);
    assert_report(&report, "cast", &[256]);
    let after = all();
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn a_short_broadcast_costs_one_frame_a_release_another_and_each_arrival_one() {
    let site = Site::beside("perfwire", one_switch(4));
    // The session's own cost is in both runs and cancels.
    let ((few_root, few_others), (many_root, many_others)) = (frames_of(&site, 50), frames_of(&site, 550));
    let iterations = 500;
    let (root, others) = (many_root - few_root, many_others - few_others);
    println!("counted for {iterations} iterations: {root} frames of the root, {others} of the others");
    // An iteration is a barrier (one release), later a broadcast and its release, each sent once to
    // all. The root also acknowledges arrivals now and then, but not one by one.
    let messages = 3 * iterations;
    let arrivals = 3 * 2 * iterations;
    // Both runs also contain heartbeats and, when an acknowledgement is late on a busy machine, the
    // root's probes: up to as many again. (The exact cost is tested in the simulator.)
    let allowance = messages / 4;
    assert!(
        (messages - allowance..=2 * (messages + arrivals / 2 + allowance)).contains(&root),
        "{root} frames of the root for {messages} messages and {arrivals} arrivals"
    );
    // Each arrival is a frame; a broadcast may be acknowledged with it or with the next one.
    let (least, most) = (arrivals - allowance, 6 * (messages + allowance));
    assert!((least..=most).contains(&others), "{others} frames of three others for {messages} messages");
}

#[test]
fn a_measurement_does_not_concern_who_receives_files_in_the_same_group() {
    let site = Site::beside("perfrecv", one_switch(5));
    let receiver = site.start("n4", &["recv", "-i", "eth0", "--max-wait", "30"], site.path("n4"));
    assert_report(&measured(&site, &["--sizes", "256", "--iterations", "3"]), "auto", &[256]);
    let source = site.file("source", "text");
    site.run(ROOT, &["send", "-n", "1", "-i", "eth0", "--max-wait", "20"], &source).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert!(std::fs::read(site.path("n4")).is_ok_and(|file| file == b"text"), "the file it waited for");
}
