//! Tests of the collectives that `ethbcast perf` times. Transfers from and to shell commands are
//! tested here too.

use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Run, Site, content, names_in, one_switch, within};
use nix::sys::signal::Signal;
use std::fs;
use std::time::Duration;

/// Waits until all ranks have joined and a host receives one operation after the other.
fn wait_for_operations(site: &Site, host: &str) {
    let received = || {
        site.lab()
            .counters(host)
            .expect("a host of this lab")
            .received_frames
    };
    within(LIMIT, || (received() > 2000).then_some(()))
        .unwrap_or_else(|| panic!("{host} has {} frames", received()));
}

fn rank(site: &Site, host: &str, more: &[&str]) -> Run {
    let arguments = ["perf", "-i", "eth0", "-n", "4", "--max-wait", "20"];
    Run::start(host, site.ethbcast(host, arguments.iter().chain(more)))
}

#[test]
fn perf_measures_the_communicators_operations_and_the_root_may_be_any_rank() {
    let site = Site::beside("perf_ops", one_switch(4));
    for op in [
        "barrier",
        "sendrecv",
        "allgather",
        "scatter",
        "gather",
        "allreduce",
    ] {
        let others = ["n0", "n1", "n3"].map(|host| rank(&site, host, &["--op", op]));
        let root = rank(
            &site,
            "n2",
            &[
                "--op",
                op,
                "--root",
                "--json",
                "--sizes",
                "64,20000",
                "--iterations",
                "30",
            ],
        )
        .end(LIMIT);
        others
            .into_iter()
            .for_each(|other| other.end(LIMIT).assert_code(0));
        root.assert_code(0);
        let report = root.json();
        let results = report["results"].as_array().expect("a list");
        let sizes: Vec<_> = results
            .iter()
            .map(|result| result["size"].as_u64().expect("a number"))
            .collect();
        let expected: &[u64] = if op == "barrier" { &[0] } else { &[64, 20_000] };
        assert_eq!(
            (report["op"].as_str(), &sizes[..]),
            (Some(op), expected),
            "{report}"
        );
        let positive = |result: &serde_json::Value| {
            result[format!("{op}_seconds")]
                .as_f64()
                .is_some_and(|seconds| seconds > 0.0)
        };
        assert!(results.iter().all(positive), "{report}");
    }
}

#[test]
fn an_interrupt_ends_a_call_that_is_blocked() {
    let site = Site::beside("perf_blocked", one_switch(4));
    let stopped = rank(&site, "n1", &["--op", "barrier"]);
    let other = rank(&site, "n2", &["--op", "barrier"]);
    let leaver = rank(&site, "n3", &["--op", "barrier"]);
    let root = rank(
        &site,
        "n0",
        &["--op", "barrier", "--root", "--iterations", "1000000"],
    );
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
        assert!(
            end.stderr.contains("rank 3 (n3) has left the group"),
            "{}",
            end.stderr
        );
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
    let two = hosts.map(|host| {
        rank(
            &site,
            host,
            if host < "n2" {
                &["--op", "barrier", "--root"]
            } else {
                &["--op", "barrier"]
            },
        )
    });
    for run in two {
        let end = run.end(LIMIT);
        end.assert_code(2);
        assert!(
            end.stderr.contains("2 ranks are roots (n0, n1)"),
            "{}",
            end.stderr
        );
    }
}

fn send(site: &Site, arguments: &[&str]) -> Run {
    Run::start(
        "n0",
        site.ethbcast(
            "n0",
            [
                &["send", "-i", "eth0", "-n", "1", "--max-wait", "20"],
                arguments,
            ]
            .concat(),
        ),
    )
}

#[test]
fn a_commands_output_arrives_and_the_commands_for_the_end_run_afterwards() {
    let site = Site::beside("pipe", one_switch(2));
    let (dest, note) = (site.path("dest"), site.path("note"));
    let exec = format!(
        "echo $ETHBCAST_BYTES $ETHBCAST_SOURCE $(cat $ETHBCAST_PATH) > {}",
        note.display()
    );
    let receiver = site.start(
        "n1",
        &["recv", "-i", "eth0", "--max-wait", "20", "--exec", &exec],
        &dest,
    );
    let after = "test $ETHBCAST_RECEIVERS = 1 && exit 9";
    let root = send(
        &site,
        &["--pipe", "printf abc", "--size", "3", "--exec-after", after],
    )
    .end(LIMIT);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(fs::read_to_string(note).expect("it ran"), "3 stdout abc\n");
    root.assert_code(4);
    assert!(
        root.stderr.contains("all was delivered, but") && root.stderr.contains('9'),
        "{}",
        root.stderr
    );
}

#[test]
fn a_command_that_fails_or_has_another_size_than_announced_fails_the_run_and_nobody_keeps_a_part() {
    let site = Site::beside("half", one_switch(2));
    let directory = site.directory("dest");
    for (arguments, words) in [
        (
            &["--pipe", "head -c 3000000 /dev/zero; exit 3"][..],
            "failed (exit status: 3)",
        ),
        (
            &["--pipe", "(head -c 3000000 /dev/zero; exit 3) | cat"],
            "failed (exit status: 3)",
        ),
        (
            &["--pipe", "printf abc", "--size", "4"],
            "4 bytes at first, 3 in the end",
        ),
        (
            &["--pipe", "printf abc", "--size", "2"],
            "2 bytes at first, 3",
        ),
    ] {
        let receiver = site.start(
            "n1",
            &["recv", "--once", "-i", "eth0", "--max-wait", "20"],
            directory.join("file"),
        );
        let root = send(&site, arguments).end(LIMIT);
        root.assert_refusal(4, &[words]);
        assert_ne!(receiver.end(LIMIT).code(), 0);
        assert_eq!(names_in(&directory), [""; 0]);
    }
    send(&site, &["--size", "3", "/etc/hostname"])
        .end(LIMIT)
        .assert_refusal(2, &["--size", "leave it out"]);
}

/// Starts a receiver that feeds a command.
fn feed(site: &Site, host: &str, command: &str) -> Run {
    Run::start(
        host,
        site.ethbcast(
            host,
            ["recv", "-i", "eth0", "--max-wait", "20", "--pipe", command],
        ),
    )
}

#[test]
fn commands_take_what_comes_and_one_that_fails_fails_its_receiver_with_its_own_code() {
    let site = Site::beside("feed", one_switch(6));
    let bytes = content(11, 3 * MEBIBYTE + 5);
    let (source, copy, said) = (
        site.file("image", &bytes),
        site.path("copy"),
        site.path("said"),
    );
    let good = feed(
        &site,
        "n1",
        &format!("echo of $ETHBCAST_SOURCE; dd of={}", copy.display()),
    );
    let early = feed(&site, "n2", "head -c 10 > /dev/null");
    let failing = feed(
        &site,
        "n3",
        &format!("cat > /dev/null; echo end > {}; exit 7", said.display()),
    );
    let gone = feed(&site, "n4", "exit 9");
    let signalled = feed(&site, "n5", "head -c 1000000 > /dev/null; kill -KILL $$");
    let root = site.run(
        "n0",
        &[
            "send",
            "-i",
            "eth0",
            "-n",
            "5",
            "--max-wait",
            "20",
            "--via",
            "chain",
        ],
        &source,
    );
    let good = good.end(LIMIT);
    good.assert_code(0);
    assert!(good.stderr.contains("of image\n"), "{}", good.stderr);
    assert!(
        good.stdout_text().starts_with("image: 3.00 MiB verified"),
        "{}",
        good.stdout_text()
    );
    assert!(fs::read(copy).is_ok_and(|copy| copy == bytes));
    early.end(LIMIT).assert_refusal(
        4,
        &[
            "`head -c 10 > /dev/null` ended before it had taken all",
            "cat > /dev/null",
        ],
    );
    failing
        .end(LIMIT)
        .assert_refusal(7, &["failed (exit status: 7)"]);
    assert!(said.exists(), "it saw the end");
    gone.end(LIMIT)
        .assert_refusal(9, &["`exit 9` failed (exit status: 9)"]);
    signalled.end(LIMIT).assert_refusal(137, &["signal: 9"]);
    root.assert_code(1);
    for words in ["1 of 5 receivers verified", "n2 ", "n3 ", "exit status: 7"] {
        assert!(
            root.stdout_text().contains(words) || root.stderr.contains(words),
            "{words}: {root:?}"
        );
    }
}

#[test]
fn a_command_that_stands_still_or_loses_its_sender_is_ended_and_never_sees_half_of_it_as_all() {
    let site = Site::beside("halves", one_switch(4));
    let source = site.file("image", content(12, 24 * MEBIBYTE));
    let notes = ["n1", "n2", "n3"].map(|host| site.path(host));
    let told = |at: usize| format!("; echo ended > {}", notes[at].display());
    let still = feed(&site, "n1", &format!("sleep 1000 {}", told(0)));
    let interrupted = feed(
        &site,
        "n2",
        &format!("head -c 1000 > /dev/null; sleep 1000 {}", told(1)),
    );
    let good = feed(
        &site,
        "n3",
        &format!("test $(wc -c) = {} {}", 24 * MEBIBYTE, told(2)),
    );
    let send = [
        "send",
        "-i",
        "eth0",
        "-n",
        "3",
        "--via",
        "chain",
        "--stall",
        "1",
        "--patience",
        "2",
    ];
    let root = site.start("n0", &send, &source);
    root.wait_for_line("sending");
    std::thread::sleep(Duration::from_millis(500));
    interrupted.signal(Signal::SIGINT);
    interrupted
        .end(LIMIT)
        .assert_refusal(130, &["interrupted", "the command was ended"]);
    good.end(LIMIT).assert_code(0);
    still.end(LIMIT).assert_refusal(
        1,
        &[
            "went on without this host",
            "sleep 1000",
            "had not taken all",
        ],
    );
    let root = root.end(LIMIT);
    root.assert_code(1);
    assert!(root.stderr.contains("n1 (stalled)"), "{}", root.stderr);
    assert_eq!(notes.map(|note| note.exists()), [false, false, true]);
}

#[test]
fn a_command_takes_no_directory_and_has_no_dest_beside_it() {
    let site = Site::beside("nofeed", one_switch(2));
    let source = site.directory("tree");
    fs::write(source.join("file"), "text").expect("room");
    let receiver = feed(&site, "n1", "tar x");
    site.run(
        "n0",
        &["send", "-i", "eth0", "-n", "1", "--max-wait", "3"],
        &source,
    )
    .assert_code(3);
    receiver
        .end(LIMIT)
        .assert_refusal(4, &["a directory comes", "tar c DIR"]);
    let usage = |arguments: &[&str]| {
        Run::start("n1", site.ethbcast("n1", [&["recv"], arguments].concat())).end(LIMIT)
    };
    usage(&["--pipe", "tar x", "dest"]).assert_code(2);
    usage(&["--pipe", "tar x", "--verify", "read"])
        .assert_refusal(2, &["a command", "cannot be read back"]);
}
