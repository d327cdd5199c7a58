//! Tests of transfers in which hosts die, hang, are cut off or interrupted.

use super::{
    CULPRIT, QUARTER_BYTES, Session, begun, half_way, impatient, relays, sixteen_mebibytes, slow,
    twelve_mebibytes,
};
use crate::harness::{
    Ethbcast, LIMIT, MEBIBYTE, PROGRAM, Run, Site, content, names_in, one_switch, within,
};
use crate::machine::resuming::{assert_gone, children};
use ethbcast_lab::LabConfig;
use nix::sys::signal::Signal;
use std::thread;
use std::time::Duration;

#[test]
fn when_two_neighbours_of_a_chain_die_together_nobody_ends_up_with_half_a_file() {
    let site = Site::beside("pair", slow(7));
    let session = half_way(&site, "chain", "n6");
    ["n3", "n4"]
        .into_iter()
        .for_each(|host| session.receiver(host).signal(Signal::SIGKILL));
    let outcome = session.end(LIMIT);
    ["n1", "n2"]
        .into_iter()
        .for_each(|host| outcome.assert_delivered(host));
    // Frames that only n3 and n4 had kept are lost: hosts that need them cannot be served.
    for host in ["n5", "n6"] {
        match outcome.status(host).as_str() {
            "verified" => outcome.assert_delivered(host),
            "orphaned" => outcome.assert_nothing(host, 1),
            status => panic!("{host} is {status}: {}", outcome.root.stderr),
        }
    }
    outcome.root.assert_code(1);
    ["n3", "n4"]
        .into_iter()
        .for_each(|host| outcome.forget_dead(host));
}

#[test]
fn when_neighbours_of_a_chain_die_while_frames_are_lost_everybody_else_gets_the_file() {
    let site = Site::beside(
        "lossypair",
        LabConfig {
            loss: 0.01,
            ..relays()
        },
    );
    for pause in [Duration::ZERO, Duration::from_millis(100)] {
        let session = twelve_mebibytes(&site, "chain").start();
        session.wait_for_sent(2 * QUARTER_BYTES);
        session.receiver("n2").signal(Signal::SIGKILL);
        std::thread::sleep(pause);
        session.receiver("n3").signal(Signal::SIGKILL);
        let outcome = session.end(LIMIT);
        outcome.assert_others_delivered(&["n2", "n3"]);
        outcome.root.assert_code(1);
        for host in ["n2", "n3"] {
            outcome.assert_named(host, &["silent", "died", "killed"]);
            outcome.forget_dead(host);
        }
    }
}

#[test]
fn a_receiver_that_is_killed_is_known_before_its_silence_is_and_the_others_are_served() {
    let site = Site::beside("killed", relays());
    // A relay, a receiver of a cast, and the last of a chain.
    for (via, dead) in [("chain", "n3"), ("cast", "n3"), ("chain", "n5")] {
        let session = twelve_mebibytes(&site, via).start();
        session.wait_for_sent(QUARTER_BYTES);
        let watcher = children(session.receiver(dead));
        assert_eq!(watcher.len(), 1, "{watcher:?}");
        session.receiver(dead).signal(Signal::SIGKILL);
        // A silent host has no known cause; the death of this one was announced by another process.
        session.root.wait_for_line(&format!("{dead} failed: died"));
        let outcome = session.end(LIMIT);
        outcome.assert_others_delivered(&[dead]);
        outcome.root.assert_code(1);
        assert_eq!(outcome.status(dead), "died");
        // With its partial data, which the next run continues.
        assert!(
            outcome.row(dead)["bytes"]
                .as_u64()
                .is_some_and(|bytes| bytes > 0),
            "{}",
            outcome.row(dead)
        );
        let again = format!("{dead} had ");
        let count = format!("1 of 5 receivers failed: {dead} (died)");
        for word in [
            &again,
            " of it; start `recv` there again, then send again to it",
            &count,
        ] {
            assert!(
                outcome.root.stderr.contains(word),
                "{word}: {}",
                outcome.root.stderr
            );
        }
        outcome.forget_dead(dead);
        assert_gone(&watcher);
    }
}

#[test]
fn when_the_interface_of_a_receiver_goes_down_it_says_so_and_the_others_are_served() {
    let site = Site::beside("unplug", slow(4));
    let session = begun(
        sixteen_mebibytes(&site, "chain").both_options("--patience", "5"),
        "n3",
    );
    site.set_up("n2", "ip", &["link", "set", "eth0", "down"]);
    // It is waited for: without --patience as long as a switch takes to restart.
    let outcome = session.end(LIMIT);
    outcome.assert_nothing("n2", 4);
    assert!(
        outcome
            .receiver("n2")
            .stderr
            .contains("ip link set eth0 up"),
        "{}",
        outcome.receiver("n2").stderr
    );
    outcome.assert_others_delivered(&["n2"]);
    outcome.root.assert_code(1);
    assert_eq!(outcome.status("n2"), "silent");
}

/// Part of a host that is off for a time: its switch port, or its process.
type Outage = (&'static str, fn(&Session, &str, bool));

const PORT: Outage = ("its switch port", |session, host, is_off| {
    session.lab().set_port(host, !is_off).expect("a port")
});
const PROCESS: Outage = ("its process", |session, host, is_off| {
    let signal = if is_off {
        Signal::SIGSTOP
    } else {
        Signal::SIGCONT
    };
    session.run(host).signal(signal);
});

/// Runs transfers with an outage that begins in their first quarter.
fn outages(story: &str, rows: &[(Outage, &'static str, &str, f64)]) {
    let site = Site::beside(story, relays());
    for &((what, set), via, host, seconds) in rows {
        println!("{via}: {what} at {host} is off for {seconds} s");
        let session = twelve_mebibytes(&site, via).start();
        session.wait_for_sent(QUARTER_BYTES);
        set(&session, host, true);
        thread::sleep(Duration::from_secs_f64(seconds));
        set(&session, host, false);
        session.end(LIMIT).assert_verified();
    }
}

#[test]
fn where_a_switch_port_is_out_for_3_s_all_get_the_file() {
    outages(
        "port",
        &[
            (PORT, "chain", CULPRIT, 3.0),
            (PORT, "cast", CULPRIT, 3.0),
            (PORT, "chain", "n0", 3.0),
        ],
    );
}

#[test]
fn where_a_process_is_stopped_for_3_s_all_get_the_file() {
    outages(
        "stopped",
        &[
            (PROCESS, "chain", CULPRIT, 3.0),
            (PROCESS, "cast", CULPRIT, 3.0),
            (PROCESS, "chain", "n0", 3.0),
        ],
    );
}

#[test]
fn a_relay_whose_interface_stays_off_ends_with_its_patience() {
    let site = Site::beside("off", relays());
    let session = impatient(&site, "chain").start();
    session.wait_for_sent(QUARTER_BYTES);
    site.lab().set_link(CULPRIT, false).expect("an interface");
    let outcome = session.end(LIMIT);
    outcome.assert_others_delivered(&[CULPRIT]);
    outcome.assert_named(CULPRIT, &["silent"]);
    outcome.root.assert_code(1);
    let ended = outcome.receiver(CULPRIT);
    assert!(
        [3, 4].contains(&ended.code()),
        "{}: {}",
        ended.code(),
        ended.stderr
    );
    // The limit that was asked for, and not the usual 30 s.
    assert!(
        ended.stderr.contains("has not come back for 4.5s"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_receiver_whose_interface_is_away_ends_at_a_signal() {
    let site = Site::beside("offterm", relays());
    let session = twelve_mebibytes(&site, "chain").start();
    session.wait_for_sent(QUARTER_BYTES);
    site.lab().set_link(CULPRIT, false).expect("an interface");
    session.root.wait_for_line(CULPRIT);
    session.receiver(CULPRIT).signal(Signal::SIGTERM);
    site.lab().set_link(CULPRIT, true).expect("an interface");
    let outcome = session.end(LIMIT);
    outcome.assert_others_delivered(&[CULPRIT]);
    outcome.assert_nothing(CULPRIT, 143);
}

#[test]
fn a_sender_ends_at_the_first_signal_and_says_how_far_each_came_also_while_its_interface_is_away() {
    let site = Site::beside("rootterm", one_switch(2));
    let source = site.file("source", content(3, 12 * MEBIBYTE));
    for is_away in [false, true] {
        let receiver = site.start("n1", &["recv", "-i", "eth0"], site.path("dest"));
        let sender = site.start(
            "n0",
            &["send", "-i", "eth0", "-n", "1", "--rate", "8mbit"],
            &source,
        );
        // In the second round it has a part of the first, if that had come far.
        sender.wait_for_line("12.00 MiB to 1 receiver");
        site.lab().set_link("n0", !is_away).expect("an interface");
        if is_away {
            sender.wait_for_line("interface has gone down");
        }
        sender.signal(Signal::SIGTERM);
        let ended = sender.end(LIMIT);
        // A signal ends the wait for silent hosts: that is a verdict, if no other host is left.
        if is_away && ended.code() == 1 {
            ended.assert_refusal(1, &["n1 (silent)", "[E-CARRIER]"]);
        } else {
            ended.assert_refusal(
                143,
                &["interrupted: 0 of 1 receivers have verified everything"],
            );
            assert!(!ended.stderr.contains(" 0.000 s"), "{ended:?}");
            let told = if is_away {
                "the receivers know it by its silence"
            } else {
                "the receivers have been notified"
            };
            ended.assert_refusal(143, &["interrupted; ", told]);
        }
        site.lab().set_link("n0", true).expect("an interface");
        receiver.signal(Signal::SIGTERM);
        let received = receiver.end(LIMIT);
        assert!([1, 143].contains(&received.code()), "{received:?}");
        let left = [
            "the received data is kept beside it",
            "nothing was left at DEST",
        ];
        assert!(
            left.iter().any(|left| received.stderr.contains(left)),
            "{received:?}"
        );
    }
}

#[test]
fn a_receiver_ends_at_its_time_limit_while_whoever_reads_its_output_does_not() {
    let site = Site::beside("blocked", one_switch(2));
    let source = site.file("source", content(4, 48 * MEBIBYTE));
    let script = "mkfifo f; sleep 1000 <f & \"$0\" recv -i eth0 --timeout 2 - >f; code=$?; kill $!; exit $code";
    let mut fifo = site.command("n1", "sh");
    fifo.args(["-c", script])
        .arg(PROGRAM)
        .current_dir(site.directory("fifo"));
    let mut command = site.command("n1", PROGRAM);
    command.args([
        "recv",
        "-i",
        "eth0",
        "--timeout",
        "2",
        "--pipe",
        "sleep 1000",
    ]);
    for (receiver, left) in [(fifo, "DEST"), (command, "the command was ended")] {
        let receiver = Run::start("n1", receiver);
        let sender = site.start("n0", &["send", "-i", "eth0", "-n", "1"], &source);
        receiver
            .end(LIMIT)
            .assert_refusal(3, &["the session exceeded its time limit", left]);
        let ended = sender.end(LIMIT);
        ended.assert_code(1);
        assert!(
            ended.stderr.contains("takes longer than this host allows"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn a_relay_whose_interface_gets_another_name_gets_the_file() {
    let site = Site::beside("renamed", relays());
    let session = twelve_mebibytes(&site, "chain").start();
    session.wait_for_sent(QUARTER_BYTES);
    for line in [
        "link set eth0 down",
        "link set eth0 name lan0",
        "link set lan0 up",
    ] {
        site.set_up(CULPRIT, "ip", &line.split(' ').collect::<Vec<_>>());
    }
    session.end(LIMIT).assert_verified();
}

#[test]
fn a_host_that_ends_for_its_own_interface_sends_the_reason() {
    let site = Site::beside("ownreason", relays());
    let session = impatient(&site, "chain").start();
    session.wait_for_sent(QUARTER_BYTES);
    site.set_up(CULPRIT, "ip", &["link", "set", "eth0", "mtu", "1400"]);
    let outcome = session.end(LIMIT);
    outcome.assert_others_delivered(&[CULPRIT]);
    outcome.assert_named(
        CULPRIT,
        &[
            "died: interface eth0 refuses",
            "died: the MTU of interface eth0 was lowered",
        ],
    );
    outcome.assert_nothing(CULPRIT, 4);
}

#[test]
fn a_host_whose_address_changes_tells_the_sender_so() {
    let site = Site::beside("address", relays());
    let session = impatient(&site, "chain").start();
    session.wait_for_sent(QUARTER_BYTES);
    site.set_up(
        CULPRIT,
        "ip",
        &["link", "set", "eth0", "address", "02:00:00:00:77:01"],
    );
    let outcome = session.end(LIMIT);
    outcome.assert_others_delivered(&[CULPRIT]);
    outcome.assert_named(CULPRIT, &["has changed its address", "silent"]);
    outcome.assert_nothing(CULPRIT, 4);
    assert!(
        outcome
            .receiver(CULPRIT)
            .stderr
            .contains("to 02:00:00:00:77:01")
    );
}

#[test]
fn a_host_that_pauses_for_too_long_finds_that_the_others_have_gone_on() {
    let site = Site::beside("frozen", slow(4));
    let session = begun(
        sixteen_mebibytes(&site, "chain").both_options("--patience", "5"),
        "n3",
    );
    session.receiver("n1").signal(Signal::SIGSTOP);
    session.root.wait_for_line("n1 (silent)");
    session.receiver("n1").signal(Signal::SIGCONT);
    let outcome = session.end(LIMIT);
    outcome.assert_others_delivered(&["n1"]);
    outcome.root.assert_code(1);
    // The views sent meanwhile wait in its ring.
    outcome.assert_nothing("n1", 1);
    assert!(
        outcome
            .receiver("n1")
            .stderr
            .contains("went on without this host"),
        "{}",
        outcome.receiver("n1").stderr
    );
}

#[test]
fn a_receiver_that_is_slow_to_write_is_not_taken_for_dead() {
    const PAUSE: Duration = Duration::from_secs(3);
    let site = Site::beside("dawdle", one_switch(3));
    let bytes = content(6, 48 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    for via in ["chain", "cast"] {
        let dest = site.path(&format!("n1-{via}"));
        // More than the buffers on the way hold: the sender must wait for the pipe's reader.
        let script = format!(
            "\"$0\" recv -i eth0 - | {{ sleep {}; cat; }} > \"$1\"",
            PAUSE.as_secs()
        );
        let mut slow = site.command("n1", "sh");
        slow.args(["-c", &script]).arg(PROGRAM).arg(&dest);
        let slow = Run::start("n1", slow);
        let fast = site.start(
            "n2",
            &["recv", "-i", "eth0"],
            site.path(&format!("n2-{via}")),
        );
        let root = site.run(
            "n0",
            &["send", "--json", "-i", "eth0", "-n", "2", "--via", via],
            &source,
        );
        root.assert_code(0);
        slow.end(LIMIT).assert_code(0);
        fast.end(LIMIT).assert_code(0);
        assert!(
            root.json()["total_seconds"]
                .as_f64()
                .is_some_and(|seconds| seconds >= PAUSE.as_secs_f64() * 0.8),
            "{}",
            root.json()
        );
        assert!(std::fs::read(&dest).expect("written") == bytes, "{via}");
    }
}

#[test]
fn ctrl_c_at_the_root_ends_every_receiver() {
    let site = Site::beside("rootint", slow(5));
    for (via, signal, code) in [
        ("chain", Signal::SIGINT, 130),
        ("cast", Signal::SIGINT, 130),
        ("chain", Signal::SIGTERM, 143),
    ] {
        let session = half_way(&site, via, "n4");
        session.root.signal(signal);
        // A receiver that considered the root dead would report it.
        let outcome = session.end(LIMIT);
        outcome.root.assert_code(code);
        let report = outcome.root.json();
        assert_eq!(
            (&report["exit_code"], report["bytes"].as_u64()),
            (&code.into(), Some(0)),
            "{report}"
        );
        assert!(
            report["error"]
                .as_str()
                .is_some_and(|error| error.starts_with("interrupted")),
            "{report}"
        );
        let ends = report["receivers"].as_array().expect("a list").iter();
        let ends: Vec<_> = ends
            .map(|one| (one["host"].as_str(), one["status"].as_str()))
            .collect();
        let told = ["n1", "n2", "n3", "n4"].map(|host| (Some(host), Some("interrupted")));
        assert_eq!(ends, told, "all were told of by then: {report}");
        for host in ["n1", "n2", "n3", "n4"] {
            outcome.assert_nothing(host, 1);
            assert!(
                outcome.receiver(host).stderr.contains("interrupted"),
                "{}",
                outcome.receiver(host).stderr
            );
        }
    }
}

#[test]
fn ctrl_c_at_one_receiver_concerns_nobody_else() {
    let site = Site::beside("recvint", slow(5));
    for (via, signal, code) in [
        ("chain", Signal::SIGINT, 130),
        ("cast", Signal::SIGINT, 130),
        ("chain", Signal::SIGTERM, 143),
    ] {
        let session = half_way(&site, via, "n4");
        session.receiver("n2").signal(signal);
        let outcome = session.end(LIMIT);
        outcome.assert_nothing("n2", code);
        outcome.assert_others_delivered(&["n2"]);
        outcome.root.assert_code(1);
        assert!(
            outcome
                .root
                .stderr
                .contains("1 of 4 receivers failed: n2 (interrupted)"),
            "{}",
            outcome.root.stderr
        );
    }
}

#[test]
fn ctrl_c_at_a_receiver_that_has_delivered_takes_nothing_back() {
    let site = Site::beside("delivered", one_switch(3));
    let bytes = content(9, 4 * MEBIBYTE);
    let (source, dest) = (site.file("source.bin", &bytes), site.path("n1"));
    let first = site.start("n1", &["recv", "-i", "eth0", "--max-wait", "10"], &dest);
    // Its buffers hold the file, but its pipe does not: the session continues while n1 has nothing
    // left to do.
    let stuck = Run::unread(
        "n2",
        site.ethbcast("n2", ["recv", "-i", "eth0", "--max-wait", "10", "-"]),
    );
    let root = site.start(
        "n0",
        &["send", "--json", "-i", "eth0", "-n", "2", "--via", "cast"],
        &source,
    );
    within(LIMIT, || dest.exists().then_some(())).expect("n1 delivers");
    // Reported a moment after the file has its name.
    thread::sleep(Duration::from_secs(1));
    first.signal(Signal::SIGINT);
    let first = first.end(LIMIT);
    assert!(
        std::fs::read(&dest).is_ok_and(|file| file == bytes),
        "what was verified stays"
    );
    assert!(
        !first.stderr.contains("nothing was left"),
        "it says something else than what is: {}",
        first.stderr
    );
    stuck.signal(Signal::SIGKILL);
    let root = root.end(LIMIT);
    root.assert_code(1);
    assert!(
        root.stderr.contains("1 of 2 receivers failed: n2 (died)"),
        "n1 has not failed: {}",
        root.stderr
    );
}

#[test]
fn ctrl_c_before_anything_has_begun_leaves_nothing() {
    let site = Site::beside("early", one_switch(3));
    let (source, directory) = (site.file("source", "text"), site.directory("dest"));
    let dest = directory.join("file");
    let receiver = site.start("n1", &["recv", "-i", "eth0", "--once"], &dest);
    let root = site.start("n0", &["send", "-i", "eth0", "-n", "2"], &source);
    root.wait_for_line("n1 joined");
    root.signal(Signal::SIGINT);
    root.end(LIMIT).assert_refusal(130, &["interrupted"]);
    receiver.end(LIMIT).assert_refusal(1, &["interrupted"]);
    let receiver = site.start("n1", &["recv", "-i", "eth0"], &dest);
    receiver.wait_for_line("waiting for a sender");
    receiver.signal(Signal::SIGINT);
    receiver.end(LIMIT).assert_refusal(130, &["interrupted"]);
    assert_eq!(names_in(&directory), [""; 0]);
}
