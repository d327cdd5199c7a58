//! Tests of `ethbcast perf` and `ethbcast bench`: timed collectives, several processes on a host,
//! deaths.

use crate::harness::{
    Ended, Ethbcast, LIMIT, PROGRAM, Run, Site, ended_here, here, names_in, namespaces, one_switch,
    require_root, scratch, within,
};
use ethbcast_lab::LabConfig;
use ethbcast_planning::plan::Via;
use ethbcast_planning::topology::Topology;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const ROOT: &str = "n0";
const OTHERS: [&str; 3] = ["n1", "n2", "n3"];
const RANKS: u64 = 4;
/// Starts a rank other than the root.
fn member(site: &Site, host: &str) -> Run {
    Run::start(
        host,
        site.ethbcast(host, ["perf", "-i", "eth0", "-n", "4", "--max-wait", "20"]),
    )
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
    members
        .into_iter()
        .for_each(|member| member.end(LIMIT).assert_code(0));
    root.json()
}

#[track_caller]
fn seconds(result: &Value, name: &str) -> f64 {
    let seconds = result[name]
        .as_f64()
        .unwrap_or_else(|| panic!("{name} is no number in {result}"));
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
    assert_eq!(
        (&report["op"], &report["preset"]),
        (&"bcast".into(), &"default".into()),
        "{report}"
    );
    let results = report["results"].as_array().expect("a list");
    let measured: Vec<u64> = results
        .iter()
        .map(|result| result["size"].as_u64().expect("a number"))
        .collect();
    assert_eq!(measured, sizes, "{report}");
    for result in results {
        let run = result["via"].as_str().expect("a word");
        assert!(
            if via == "auto" {
                run.parse::<Via>().is_ok()
            } else {
                run == via
            },
            "{report}"
        );
        let [mean, min, median, p99] =
            ["bcast_seconds", "min", "median", "p99"].map(|name| seconds(result, name));
        assert!(
            min <= median && median <= p99 && (min..=p99).contains(&mean),
            "{result}"
        );
        let middle = seconds(result, "middle_80_percent_mean");
        assert!((min..=p99).contains(&middle), "{result}");
        assert!(
            result["goodput_bits_per_second"]
                .as_f64()
                .is_some_and(|rate| rate > 0.0),
            "{result}"
        );
        for name in [
            "barrier_seconds",
            "barrier_median",
            "barrier_p99",
            "barrier_middle_80_percent_mean",
        ] {
            seconds(result, name);
        }
        seconds(result, "predicted_seconds");
        assert!(
            result["segment_bytes"]
                .as_u64()
                .is_some_and(|bytes| bytes > 0),
            "{result}"
        );
    }
}

#[test]
fn sizes_are_measured_one_after_the_other_and_a_barrier_is_shorter_than_a_broadcast() {
    // A mebibyte takes 170 ms of each cable.
    let site = Site::beside(
        "perf",
        LabConfig {
            rate_bits_per_second: Some(50_000_000),
            ..one_switch(4)
        },
    );
    let report = measured(&site, &["--sizes", "256,4K,1M", "--iterations", "10"]);
    println!("{report}");
    assert_report(&report, "auto", &[256, 4096, 1 << 20]);
    let large = &report["results"][2];
    assert!(
        seconds(large, "barrier_median") < seconds(large, "median"),
        "{large}"
    );
    assert!(
        seconds(large, "min") > seconds(&report["results"][0], "min"),
        "more bytes take longer: {report}"
    );
}

#[test]
fn every_way_is_measured_with_every_byte_verified() {
    let topology = "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n[0-1]\"\nlinks = [\"s1\"]\n\
        [[switch]]\nname = \"s1\"\nhosts = \"n[2-3]\"\n";
    let site = Site::beside(
        "perfways",
        LabConfig::new(Topology::parse(topology, "two.toml").expect("a good topology")),
    );
    let file = site.file("two.toml", topology);
    for via in Via::ALL
        .iter()
        .map(Via::to_string)
        .chain(["auto".to_owned()])
    {
        let file = file.to_str().expect("UTF-8");
        let report = measured(
            &site,
            &[
                "--via",
                &via,
                "--sizes",
                "256,100K",
                "--iterations",
                "3",
                "--topology",
                file,
            ],
        );
        assert_report(&report, &via, &[256, 100 << 10]);
    }
}

#[test]
fn a_saved_plan_is_measured_and_refused_on_all_ranks_where_it_is_for_others() {
    let site = Site::beside("perfplan", one_switch(4));
    let plan = |hosts: &str, edges: [(&str, &str); 3]| {
        let edge = |(from, to): (&str, &str)| {
            format!("[[edge]]\nfrom = \"{from}\"\nto = \"{to}\"\norder = 0\n")
        };
        let edges: String = edges.map(edge).concat();
        format!(
            "schema = 1\nvia = \"chain\"\nroot = \"n0\"\nepoch = 1\nsegment_bytes = 1468\n\
             members = \"{hosts}\"\n{edges}"
        )
    };
    let good = site.file(
        "plan.toml",
        plan("n[0-3]", [("n0", "n2"), ("n2", "n1"), ("n1", "n3")]),
    );
    let good = good.to_str().expect("UTF-8");
    let report = measured(
        &site,
        &["--plan", good, "--sizes", "256,100K", "--iterations", "3"],
    );
    assert_eq!(
        (&report["results"][0]["via"], &report["results"][1]["via"]),
        (&"chain".into(), &"chain".into())
    );
    let other = site.file(
        "other.toml",
        plan("n[0-2,7]", [("n0", "n2"), ("n2", "n1"), ("n1", "n7")]),
    );
    let members = OTHERS.map(|host| member(&site, host));
    let ended = root(&site, &["--plan", other.to_str().expect("UTF-8")]).end(LIMIT);
    ended.assert_refusal(2, &["other.toml:6", "`n7` missing", "`n3` not in the plan"]);
    members.into_iter().for_each(|member| {
        member
            .end(LIMIT)
            .assert_refusal(2, &["n0 cannot take part"])
    });
}

#[test]
fn without_json_there_is_a_table_and_every_rank_says_what_it_saw() {
    let site = Site::beside("perftable", one_switch(4));
    let members = OTHERS.map(|host| member(&site, host));
    let arguments = [
        "perf",
        "-i",
        "eth0",
        "-n",
        "4",
        "--root",
        "--sizes",
        "256,4K",
        "--iterations",
        "5",
    ];
    let root = Run::start(ROOT, site.ethbcast(ROOT, arguments)).end(LIMIT);
    root.assert_code(0);
    let table = root.stdout_text();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(
        lines.len(),
        4,
        "a title, a head and a line for each size: {table}"
    );
    assert!(
        lines[0].starts_with("4 ranks") && lines[0].contains("verified by every rank"),
        "{table}"
    );
    assert!(
        [
            "bcast+bar",
            "barrier",
            "min",
            "median",
            "p99",
            "middle80",
            "Mbit/s"
        ]
        .iter()
        .all(|name| lines[1].contains(name)),
        "{table}"
    );
    assert!(
        lines[2].contains("256 B") && lines[3].contains("4.00 KiB"),
        "{table}"
    );
    for member in members {
        let ended = member.end(LIMIT);
        ended.assert_code(0);
        assert_eq!(ended.stdout_text(), "", "the report is the root's");
        assert_eq!(
            ended
                .stderr
                .lines()
                .filter(|line| line.contains("5 verified"))
                .count(),
            2,
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn a_rank_that_is_missing_ends_the_run_in_time() {
    let site = Site::beside("perfmiss", one_switch(4));
    let start = |host: &str| {
        Run::start(
            host,
            site.ethbcast(host, ["perf", "-i", "eth0", "-n", "4", "--max-wait", "2"]),
        )
    };
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
    let started = |host: &str| {
        Run::start(
            host,
            site.ethbcast(host, ["perf", "-i", "eth0", "-n", "4", "--max-wait", "1"]),
        )
    };
    let ended: Vec<Ended> = OTHERS.map(started).map(|run| run.end(LIMIT)).into();
    for ended in ended {
        ended.assert_refusal(3, &["3 of 4", "n1, n2, n3", "start the others", "group"]);
        assert!(ended.took >= Duration::from_secs(1), "{:?}", ended.took);
    }
}

#[test]
fn a_rank_that_is_killed_or_stopped_is_named_and_ends_the_run_for_all() {
    let site = Site::beside(
        "perfkill",
        LabConfig {
            rate_bits_per_second: Some(50_000_000),
            ..one_switch(4)
        },
    );
    for (via, signal) in [
        ("chain", Signal::SIGKILL),
        ("cast", Signal::SIGKILL),
        ("chain", Signal::SIGSTOP),
    ] {
        let before = site.lab().counters("n2").expect("a host").received_bytes;
        let mut members: Vec<Run> = OTHERS.map(|host| member(&site, host)).into();
        let root = root(
            &site,
            &[
                "--via",
                via,
                "--sizes",
                "1M",
                "--iterations",
                "1000",
                "--no-probe",
            ],
        );
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
    let root = root(
        &site,
        &["--sizes", "256,4K", "--iterations", "1000000", "--no-probe"],
    );
    within(LIMIT, || {
        (site.lab().counters("n2").expect("a host").received_frames > 1000).then_some(())
    })
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
    let report = measured(
        site,
        &[
            "--via",
            "cast",
            "--sizes",
            "256",
            "--iterations",
            &iterations.to_string(),
            "--no-probe",
        ],
    );
    assert_report(&report, "cast", &[256]);
    let after = all();
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn a_short_broadcast_costs_one_frame_a_release_another_and_each_arrival_one() {
    let site = Site::beside("perfwire", one_switch(4));
    // The session's own cost is in both runs and cancels.
    let ((few_root, few_others), (many_root, many_others)) =
        (frames_of(&site, 50), frames_of(&site, 550));
    let iterations = 500;
    let (root, others) = (many_root - few_root, many_others - few_others);
    println!(
        "counted for {iterations} iterations: {root} frames of the root, {others} of the others"
    );
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
    assert!(
        (least..=most).contains(&others),
        "{others} frames of three others for {messages} messages"
    );
}

#[test]
fn a_measurement_does_not_concern_who_receives_files_in_the_same_group() {
    let site = Site::beside("perfrecv", one_switch(5));
    let receiver = site.start(
        "n4",
        &["recv", "-i", "eth0", "--max-wait", "30"],
        site.path("n4"),
    );
    assert_report(
        &measured(&site, &["--sizes", "256", "--iterations", "3"]),
        "auto",
        &[256],
    );
    let source = site.file("source", "text");
    site.run(
        ROOT,
        &["send", "-n", "1", "-i", "eth0", "--max-wait", "20"],
        &source,
    )
    .assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert!(
        std::fs::read(site.path("n4")).is_ok_and(|file| file == b"text"),
        "the file it waited for"
    );
}

/// Two algorithms, a message and a file, two receivers, unshaped.
const SMALL: &str =
    "bench --sizes 4K,2M --receivers 2 --loss 0,0.01 --rate 200mbit --iterations 3 --limit 30";

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.split(' ').chain(more.iter().copied()).collect()
}

#[test]
fn a_small_bench_has_limits_and_all_tools_in_one_object_and_one_page() {
    require_root();
    let directory = scratch();
    let page = directory.path().join("bench.html");
    let bench = here(&with(&[
        "--peers",
        "--json",
        "--html",
        page.to_str().expect("UTF-8"),
    ]));
    let prefix = format!("ethbcast-bench{}-", bench.pid());
    let ended = bench.end(4 * LIMIT);
    ended.assert_code(0);
    assert_eq!(namespaces(&prefix), [""; 0]);
    let report: Value = serde_json::from_str(&ended.stdout_text()).expect("one object");
    let cells = report["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 4, "two sizes with two losses");
    for cell in cells {
        let number = |key: &str| {
            cell[key]
                .as_f64()
                .unwrap_or_else(|| panic!("{key}: {cell}"))
        };
        // A shaped cable carries its rate minus headers, also with raw frames.
        let raw = number("raw_broadcast_bits_per_second");
        assert!((10e6..220e6).contains(&raw), "{raw}");
        let seconds = |tool: &str| {
            let runs = cell["runs"].as_array().expect("runs");
            runs.iter()
                .find(|run| run["tool"] == tool)
                .and_then(|run| run["seconds"].as_f64())
        };
        let expected: &[&str] = match cell["kind"].as_str() {
            Some("file") => &[
                "ethbcast chain",
                "ethbcast cast",
                "TCP chain",
                "TCP chain, wire-size frames",
            ],
            _ => &["ethbcast chain", "ethbcast cast", "Open MPI", "MPICH"],
        };
        for tool in expected {
            let time = seconds(tool).unwrap_or_else(|| panic!("{tool} has no time: {cell}"));
            // A token bucket is full at first, and a small message fits into its burst.
            let is_limited = cell["kind"] == "file";
            assert!(
                time > 0.0 && (!is_limited || time > 0.8 * number("wire_seconds")),
                "{tool}: {time} s, {cell}"
            );
        }
        assert!(cell["fastest"].is_string());
    }
    let page = std::fs::read_to_string(page).expect("written");
    assert!(
        page.contains("Time against loss") && page.contains("Time against size"),
        "{page}"
    );
    assert!(
        page.contains("wire limit")
            && page.contains("raw broadcast")
            && page.contains("Who was fastest")
    );
    assert_eq!(
        page.matches("<svg ").count(),
        4,
        "two sizes against loss, two losses against size"
    );
}

#[test]
fn a_table_is_for_people_and_an_interrupted_bench_leaves_nothing() {
    require_root();
    let ended = ended_here(&[
        "bench",
        "--sizes",
        "2M",
        "--receivers",
        "1",
        "--loss",
        "0",
        "--ways",
        "chain",
        "--over",
        "ethernet,udp",
    ]);
    ended.assert_code(0);
    let table = ended.stdout_text();
    let ours = |carrier: &str| format!("ethbcast chain{carrier} ");
    let of_ours = ["", " over UDP", " over UDP, wire-size frames"].map(ours);
    for tool in ["wire limit", "raw broadcast", "raw chain"] {
        assert!(
            table.lines().any(|line| line.contains(tool)),
            "{tool}: {table}"
        );
    }
    for tool in &of_ours {
        assert!(
            table
                .lines()
                .any(|line| line.contains(tool) && line.ends_with("1/1")),
            "{tool}: {table}"
        );
    }
    let bench = here(&["bench", "--sizes", "64M", "--receivers", "2", "--loss", "0"]);
    let (pid, prefix) = (bench.pid(), format!("ethbcast-bench{}-", bench.pid()));
    bench.wait_for_line("64 MiB by ethbcast chain");
    assert_eq!(namespaces(&prefix).len(), 4, "three hosts and the switches");
    bench.signal(Signal::SIGINT);
    bench
        .end(LIMIT)
        .assert_refusal(130, &["interrupted", "taken down"]);
    assert_eq!(namespaces(&prefix), [""; 0]);
    let left = || {
        names_in(Path::new("/dev/shm"))
            .into_iter()
            .filter(|name| name.contains(&format!("-{pid}-")))
    };
    assert_eq!(left().count(), 0);
}

#[test]
fn a_bench_says_what_it_cannot_measure_before_it_begins() {
    require_root();
    for (arguments, parts) in [
        (&["--mtu", "1500,70000"][..], &["70000", "576 to 65535"][..]),
        (&["--receivers", "64"], &["1 to 63"]),
        (&["--sizes", "2G"], &["1 to 1G"]),
        (&["--loss", "0.9"], &["0 to 0.5"]),
    ] {
        ended_here(&[&["bench"], arguments].concat()).assert_refusal(2, parts);
    }
    for (arguments, part) in [
        (["--ways", "pigeon"], "chain"),
        (["--over", "pigeon"], "udp"),
        (["--rate", "fast"], "100mbit"),
    ] {
        let ended = ended_here(&[&["bench"][..], &arguments].concat());
        ended.assert_code(2);
        assert!(
            ended.stderr.contains(part),
            "{arguments:?}: {}",
            ended.stderr
        );
    }
    // A machine without any other tool.
    let empty = scratch();
    let mut bench = Command::new(PROGRAM);
    bench.args(["bench", "--peers"]).env("PATH", empty.path());
    Run::start("here", bench)
        .end(LIMIT)
        .assert_refusal(4, &["udpcast", "uftp", "openmpi-bin", "mpich", "--peers"]);
    // Another user.
    let mut bench = Command::new("setpriv");
    bench.args(["--reuid", "65534", "--clear-groups", PROGRAM, "bench"]);
    Run::start("here", bench)
        .end(LIMIT)
        .assert_refusal(4, &["needs root", "sudo"]);
}

const RANKS_ON_NODES: usize = 6;

/// Starts ranks on each of two hosts in this order; the first is the root.
fn start(site: &Site, size: &str, iterations: &str) -> Vec<Run> {
    let root = [
        "perf",
        "-i",
        "eth0",
        "-n",
        "6",
        "--max-wait",
        "20",
        "--root",
        "--json",
        "--no-probe",
    ];
    let root = Run::start(
        "n0",
        site.ethbcast(
            "n0",
            root.iter()
                .chain(&["--sizes", size, "--iterations", iterations]),
        ),
    );
    within(LIMIT, || (files(site, "n0") == 1).then_some(())).expect("the root is there");
    let others = ["n0", "n0", "n1", "n1", "n1"].map(|host| {
        Run::start(
            host,
            site.ethbcast(host, ["perf", "-i", "eth0", "-n", "6", "--max-wait", "20"]),
        )
    });
    std::iter::once(root).chain(others).collect()
}

/// Returns the number of files that the ranks of a host share.
fn files(site: &Site, host: &str) -> usize {
    let read = || {
        std::fs::metadata("/proc/thread-self/ns/net")
            .expect("a namespace")
            .ino()
    };
    let prefix = format!(
        "ethbcast-{:x}-",
        site.lab().run_on(host, read).expect("a host")
    );
    let files = std::fs::read_dir("/dev/shm")
        .expect("it is there")
        .flatten();
    files
        .filter(|file| file.file_name().to_string_lossy().starts_with(&prefix))
        .count()
}

#[test]
fn six_ranks_on_two_hosts_measure_and_leave_nothing_behind() {
    let site = Site::beside("nodesperf", one_switch(2));
    let mut ranks = start(&site, "256,64K", "20");
    let root = ranks.remove(0).end(LIMIT);
    root.assert_code(0);
    assert_eq!(
        root.json()["ranks"],
        RANKS_ON_NODES,
        "{}",
        root.stdout_text()
    );
    ranks
        .into_iter()
        .for_each(|rank| rank.end(LIMIT).assert_code(0));
    assert_eq!((files(&site, "n0"), files(&site, "n1")), (0, 0));
}

#[test]
fn a_rank_that_is_killed_whichever_and_whenever_is_named_by_others_and_nobody_hangs() {
    // The root, which receives for its host; a rank that receives for the other host, or does not.
    killed_in_turn("nodeskill", &[(0, "n0", 0), (3, "n1", 1), (5, "n1", 7)]);
}

/// Other ranks and moments, run by `./test --full`.
mod full {
    #[test]
    fn other_ranks_that_are_killed_are_named_by_others_and_nobody_hangs() {
        super::killed_in_turn("nodesmore", &[(1, "n0", 3), (4, "n1", 2), (3, "n1", 0)]);
    }
}

/// Kills, in runs of six ranks on two hosts, the rank of that number on that host, those
/// milliseconds after they began to broadcast.
fn killed_in_turn(lab: &str, deaths: &[(usize, &str, u64)]) {
    let site = Site::beside(lab, one_switch(2));
    for &(killed, host, pause_ms) in deaths {
        let received = || site.lab().counters("n1").expect("a host").received_frames;
        let before = received();
        let mut ranks = start(&site, "64K", "1000000");
        within(LIMIT, || (received() - before > 3000).then_some(())).expect("they broadcast");
        std::thread::sleep(Duration::from_millis(pause_ms));
        let dead = ranks.remove(killed);
        dead.signal(Signal::SIGKILL);
        dead.end(LIMIT).assert_code(137);
        // On a busy machine one that got no processor for long finds itself alone.
        let is_alone = |said: &str| said.contains("receives nothing from the others");
        let ended: Vec<_> = ranks.into_iter().map(|rank| rank.end(LIMIT)).collect();
        let (alone, others): (Vec<_>, Vec<_>) =
            ended.iter().partition(|rank| is_alone(&rank.stderr));
        alone.iter().for_each(|rank| rank.assert_code(1));
        for rank in &others {
            rank.assert_refusal(1, &[&format!("({host})"), "silent"]);
        }
        assert!(alone.len() < others.len(), "{alone:?}");
        assert_eq!(
            (files(&site, "n0"), files(&site, "n1")),
            (0, 0),
            "the last of each host removes what was shared"
        );
    }
}

#[test]
fn remains_of_killed_ranks_do_not_hinder_the_next() {
    let site = Site::beside("nodescrash", one_switch(2));
    let ranks = start(&site, "256", "1000000");
    within(LIMIT, || {
        (site.lab().counters("n1").expect("a host").received_frames > 1000).then_some(())
    })
    .expect("running");
    ranks.iter().for_each(|rank| rank.signal(Signal::SIGKILL));
    ranks
        .into_iter()
        .for_each(|rank| rank.end(LIMIT).assert_code(137));
    assert_eq!(
        (files(&site, "n0"), files(&site, "n1")),
        (1, 1),
        "nobody could remove it"
    );
    let ranks = start(&site, "256", "10");
    ranks
        .into_iter()
        .for_each(|rank| rank.end(LIMIT).assert_code(0));
    assert_eq!((files(&site, "n0"), files(&site, "n1")), (0, 0));
}
