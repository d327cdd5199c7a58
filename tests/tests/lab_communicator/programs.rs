//! Programs made of it: the examples, and `ethbcast perf --op`.

use ethbcast_tests::tool::{LIMIT, Run, Site, example, one_switch};
use nix::sys::signal::Signal;

/// Runs an example on so many hosts, where all must end well; what rank 0 and the others wrote.
fn run_example(story: &str, name: &str, ranks: usize, more: &[&str]) -> Vec<String> {
    let site = Site::beside(story, one_switch(ranks));
    let program = example(name);
    let runs: Vec<Run> = (0..ranks)
        .map(|rank| {
            let host = format!("n{rank}");
            let mut command = site.command(&host, program.to_str().expect("a path in ASCII"));
            command.arg(ranks.to_string()).args(more);
            Run::start(&host, command)
        })
        .collect();
    let ends: Vec<_> = runs.into_iter().map(|run| run.end(LIMIT)).collect();
    ends.iter().for_each(|end| end.assert_code(0));
    ends.iter().map(|end| String::from_utf8_lossy(&end.stdout).into_owned()).collect()
}

#[test]
fn hello_reaches_every_rank() {
    let said = run_example("example_hello", "hello", 4, &[]);
    for (rank, text) in said.iter().enumerate() {
        assert_eq!(text, &format!("rank {rank} of 4, n{rank}: hello, cluster\n"));
    }
}

#[test]
fn jacobi_finds_the_solution_that_is_known() {
    let said = run_example("example_jacobi", "jacobi", 4, &["128"]);
    assert!(said[0].starts_with("128 unknowns on 4 ranks:"), "{said:?}");
}

#[test]
fn throughput_moves_every_byte() {
    let said = run_example("example_throughput", "throughput", 3, &[]);
    assert_eq!(said[0].lines().count(), 2, "{said:?}");
}

fn rank(site: &Site, host: &str, more: &[&str]) -> Run {
    let arguments = ["perf", "-i", "eth0", "-n", "4", "--max-wait", "20"];
    Run::start(host, site.ethbcast(host, arguments.iter().chain(more)))
}

#[test]
fn perf_measures_the_communicators_operations_and_the_root_may_be_any_rank() {
    let site = Site::alone("perf_ops", one_switch(4));
    for op in ["barrier", "sendrecv", "allgather"] {
        let others = ["n0", "n1", "n3"].map(|host| rank(&site, host, &["--op", op]));
        let root = rank(&site, "n2", &["--op", op, "--root", "--json", "--sizes", "64,20000", "--iterations", "30"]).end(LIMIT);
        others.into_iter().for_each(|other| other.end(LIMIT).assert_code(0));
        root.assert_code(0);
        let report = root.json();
        let results = report["results"].as_array().expect("a list");
        let sizes: Vec<_> = results.iter().map(|result| result["size"].as_u64().expect("a number")).collect();
        let expected: &[u64] = if op == "barrier" { &[0] } else { &[64, 20_000] };
        assert_eq!((report["op"].as_str(), &sizes[..]), (Some(op), expected), "{report}");
        let positive = |result: &serde_json::Value| result[format!("{op}_seconds")].as_f64().is_some_and(|seconds| seconds > 0.0);
        assert!(results.iter().all(positive), "{report}");
    }
}

#[test]
fn a_rank_that_dies_is_named_by_all_others() {
    let site = Site::beside("perf_dies", one_switch(4));
    let others = ["n1", "n3"].map(|host| rank(&site, host, &["--op", "barrier"]));
    let victim = rank(&site, "n2", &["--op", "barrier"]);
    let root = rank(&site, "n0", &["--op", "barrier", "--root", "--iterations", "1000000"]);
    std::thread::sleep(std::time::Duration::from_millis(700));
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
    std::thread::sleep(std::time::Duration::from_millis(700));
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
    std::thread::sleep(std::time::Duration::from_millis(700));
    // All wait for n1 now, which nobody takes for dead so soon.
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
    let two = hosts.map(|host| rank(&site, host, if host < "n2" { &["--op", "barrier", "--root"] } else { &["--op", "barrier"] }));
    for run in two {
        let end = run.end(LIMIT);
        end.assert_code(2);
        assert!(end.stderr.contains("2 ranks are roots (n0, n1)"), "{}", end.stderr);
    }
}
