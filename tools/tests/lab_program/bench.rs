//! `ethbcast bench`: a short run with this machine's other tools, its refusals and its clean-up.

use crate::harness::{LIMIT, PROGRAM, Run, ended_here, here, names_in, namespaces, require_root, scratch};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Two algorithms, a message and a file, two receivers, unshaped.
const SMALL: [&str; 13] = [
    "bench",
    "--sizes",
    "4K,2M",
    "--receivers",
    "2",
    "--loss",
    "0,0.01",
    "--rate",
    "200mbit",
    "--iterations",
    "3",
    "--limit",
    "30",
];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn a_small_bench_has_limits_and_all_tools_in_one_object_and_one_page() {
    require_root();
    let directory = scratch();
    let page = directory.path().join("bench.html");
    let bench = here(&with(&["--peers", "--json", "--html", page.to_str().expect("UTF-8")]));
    let prefix = format!("ethbcast-bench{}-", bench.pid());
    let ended = bench.end(4 * LIMIT);
    ended.assert_code(0);
    assert_eq!(namespaces(&prefix), [""; 0]);
    let report: Value = serde_json::from_str(&ended.stdout_text()).expect("one object");
    let cells = report["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 4, "two sizes with two losses");
    for cell in cells {
        let number = |key: &str| cell[key].as_f64().unwrap_or_else(|| panic!("{key}: {cell}"));
        // A shaped cable carries its rate minus headers, also with raw frames.
        let raw = number("raw_broadcast_bits_per_second");
        assert!((10e6..220e6).contains(&raw), "{raw}");
        let seconds = |tool: &str| {
            let runs = cell["runs"].as_array().expect("runs");
            runs.iter().find(|run| run["tool"] == tool).and_then(|run| run["seconds"].as_f64())
        };
        let expected: &[&str] = match cell["kind"].as_str() {
            Some("file") => &["ethbcast chain", "ethbcast cast", "TCP chain", "TCP chain, wire-size frames"],
            _ => &["ethbcast chain", "ethbcast cast", "Open MPI", "MPICH"],
        };
        for tool in expected {
            let time = seconds(tool).unwrap_or_else(|| panic!("{tool} has no time: {cell}"));
            // A token bucket is full at first, and a small message fits into its burst.
            let is_limited = cell["kind"] == "file";
            assert!(time > 0.0 && (!is_limited || time > 0.8 * number("wire_seconds")), "{tool}: {time} s, {cell}");
        }
        assert!(cell["fastest"].is_string());
    }
    let page = std::fs::read_to_string(page).expect("written");
    assert!(page.contains("Time against loss") && page.contains("Time against size"), "{page}");
    assert!(page.contains("wire limit") && page.contains("raw broadcast") && page.contains("Who was fastest"));
    assert_eq!(page.matches("<svg ").count(), 4, "two sizes against loss, two losses against size");
}

#[test]
fn a_table_is_for_people_and_an_interrupted_bench_leaves_nothing() {
    require_root();
    let ended = ended_here(&["bench", "--sizes", "2M", "--receivers", "1", "--loss", "0", "--ways", "chain"]);
    ended.assert_code(0);
    let table = ended.stdout_text();
    for tool in ["wire limit", "raw broadcast", "raw chain", "ethbcast chain"] {
        assert!(table.lines().any(|line| line.contains(tool)), "{tool}: {table}");
    }
    assert!(table.lines().any(|line| line.contains("ethbcast chain") && line.ends_with("1/1")), "{table}");
    let bench = here(&["bench", "--sizes", "64M", "--receivers", "2", "--loss", "0"]);
    let (pid, prefix) = (bench.pid(), format!("ethbcast-bench{}-", bench.pid()));
    bench.wait_for_line("64 MiB by ethbcast chain");
    assert_eq!(namespaces(&prefix).len(), 4, "three hosts and the switches");
    bench.signal(Signal::SIGINT);
    bench.end(LIMIT).assert_refusal(130, &["interrupted", "taken down"]);
    assert_eq!(namespaces(&prefix), [""; 0]);
    let left = || names_in(Path::new("/dev/shm")).into_iter().filter(|name| name.contains(&format!("-{pid}-")));
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
    for (arguments, part) in [(["--ways", "pigeon"], "chain"), (["--rate", "fast"], "100mbit")] {
        let ended = ended_here(&[&["bench"][..], &arguments].concat());
        ended.assert_code(2);
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
    }
    // A machine without any other tool.
    let empty = scratch();
    let mut bench = Command::new(PROGRAM);
    bench.args(["bench", "--peers"]).env("PATH", empty.path());
    Run::start("here", bench).end(LIMIT).assert_refusal(4, &["udpcast", "uftp", "openmpi-bin", "mpich", "--peers"]);
    // Another user.
    let mut bench = Command::new("setpriv");
    bench.args(["--reuid", "65534", "--clear-groups", PROGRAM, "bench"]);
    Run::start("here", bench).end(LIMIT).assert_refusal(4, &["needs root", "sudo"]);
}
