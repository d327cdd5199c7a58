//! `ethbcast perf --op`: the operations of a communicator, and their end when a rank ends.

use crate::harness::{Ethbcast, LIMIT, Run, Site, one_switch, within};
use nix::sys::signal::Signal;

/// Waits until all ranks have joined and a host receives one operation after the other.
fn wait_for_operations(site: &Site, host: &str) {
    let received = || site.lab().counters(host).expect("a host of this lab").received_frames;
    within(LIMIT, || (received() > 2000).then_some(())).unwrap_or_else(|| panic!("{host} has {} frames", received()));
}

fn rank(site: &Site, host: &str, more: &[&str]) -> Run {
    let arguments = ["perf", "-i", "eth0", "-n", "4", "--max-wait", "20"];
    Run::start(host, site.ethbcast(host, arguments.iter().chain(more)))
}

#[test]
fn perf_measures_the_communicators_operations_and_the_root_may_be_any_rank() {
    let site = Site::beside("perf_ops", one_switch(4));
    for op in ["barrier", "sendrecv", "allgather", "scatter", "gather"] {
        let others = ["n0", "n1", "n3"].map(|host| rank(&site, host, &["--op", op]));
        let root = rank(&site, "n2", &["--op", op, "--root", "--json", "--sizes", "64,20000", "--iterations", "30"])
            .end(LIMIT);
        others.into_iter().for_each(|other| other.end(LIMIT).assert_code(0));
        root.assert_code(0);
        let report = root.json();
        let results = report["results"].as_array().expect("a list");
        let sizes: Vec<_> = results.iter().map(|result| result["size"].as_u64().expect("a number")).collect();
        let expected: &[u64] = if op == "barrier" { &[0] } else { &[64, 20_000] };
        assert_eq!((report["op"].as_str(), &sizes[..]), (Some(op), expected), "{report}");
        let positive =
            |result: &serde_json::Value| result[format!("{op}_seconds")].as_f64().is_some_and(|seconds| seconds > 0.0);
        assert!(results.iter().all(positive), "{report}");
    }
}

#[test]
fn a_rank_that_dies_is_named_by_all_others() {
    let site = Site::beside("perf_dies", one_switch(4));
    let others = ["n1", "n3"].map(|host| rank(&site, host, &["--op", "barrier"]));
    let victim = rank(&site, "n2", &["--op", "barrier"]);
    let root = rank(&site, "n0", &["--op", "barrier", "--root", "--iterations", "1000000"]);
    wait_for_operations(&site, "n2");
    victim.signal(Signal::SIGKILL);
    for run in others.into_iter().chain([root]) {
        let end = run.end(LIMIT);
        end.assert_code(1);
        assert!(end.stderr.contains("rank 2 (n2) is silent"), "{}", end.stderr);
    }
}

#[test]
fn an_interrupted_rank_tells_the_others() {
    let site = Site::beside("perf_interrupted", one_switch(4));
    let others = ["n1", "n2"].map(|host| rank(&site, host, &["--op", "sendrecv"]));
    let leaver = rank(&site, "n3", &["--op", "sendrecv"]);
    let root = rank(&site, "n0", &["--op", "sendrecv", "--root", "--sizes", "100", "--iterations", "1000000"]);
    wait_for_operations(&site, "n0");
    leaver.signal(Signal::SIGINT);
    leaver.end(LIMIT).assert_code(130);
    for run in others.into_iter().chain([root]) {
        run.end(LIMIT).assert_code(1);
    }
}

#[test]
fn an_interrupt_ends_a_call_that_is_blocked() {
    let site = Site::beside("perf_blocked", one_switch(4));
    let stopped = rank(&site, "n1", &["--op", "barrier"]);
    let other = rank(&site, "n2", &["--op", "barrier"]);
    let leaver = rank(&site, "n3", &["--op", "barrier"]);
    let root = rank(&site, "n0", &["--op", "barrier", "--root", "--iterations", "1000000"]);
    wait_for_operations(&site, "n1");
    // All wait for n1, which is not considered dead so soon.
    stopped.signal(Signal::SIGSTOP);
    std::thread::sleep(std::time::Duration::from_millis(200));
    leaver.signal(Signal::SIGINT);
    std::thread::sleep(std::time::Duration::from_millis(300));
    stopped.signal(Signal::SIGCONT);
    leaver.end(LIMIT).assert_code(130);
    for run in [other, stopped, root] {
        let end = run.end(LIMIT);
        end.assert_code(1);
        assert!(end.stderr.contains("rank 3 (n3) has left the group"), "{}", end.stderr);
    }
}

#[test]
fn two_roots_or_none_are_refused_on_every_rank() {
    let site = Site::beside("perf_roots", one_switch(4));
    let hosts = ["n0", "n1", "n2", "n3"];
    let none = hosts.map(|host| rank(&site, host, &["--op", "barrier"]));
    for run in none {
        let end = run.end(LIMIT);
        end.assert_code(2);
        assert!(end.stderr.contains("no rank is the root"), "{}", end.stderr);
    }
    let two = hosts
        .map(|host| rank(&site, host, if host < "n2" { &["--op", "barrier", "--root"] } else { &["--op", "barrier"] }));
    for run in two {
        let end = run.end(LIMIT);
        end.assert_code(2);
        assert!(end.stderr.contains("2 ranks are roots (n0, n1)"), "{}", end.stderr);
    }
}
