//! Tests of transfers under faults of hosts and frames. The other hosts get the file, the cause is
//! reported, and nothing is left behind.

mod frames;
mod hosts;

use crate::harness::{
    Ethbcast, LIMIT, MEBIBYTE, Outcome, PROGRAM, Reader, Session, Site, Transfer, content,
    lab_name, names_in, one_switch, require_root, shown_in, within,
};
use ethbcast_collectives::session::kind;
use ethbcast_lab::{LabConfig, LinkFault};
use ethbcast_planning::topology::Topology;
use ethbcast_tests::chaos::{Campaign, Terms};
use ethbcast_tests::lab::Program;
use ethbcast_tests::lab::{KIND_BYTE, SharedDirectory, ThinDisk};
use ethbcast_transport::wire::Kind;
use nix::sys::signal::Signal;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Bytes at some receiver when the fault occurs, in the middle of the transfer.
const MIDDLE_BYTES: u64 = 4 << 20;

/// Cables on which 16 MiB take 2.8 s, long enough for a fault in the middle.
pub fn slow(hosts: usize) -> LabConfig {
    LabConfig {
        rate_bits_per_second: Some(50_000_000),
        ..one_switch(hosts)
    }
}

/// Faulty host, in the middle of a chain from n0 to n5.
const CULPRIT: &str = "n3";
/// A quarter of the content of [`twelve_mebibytes`].
const QUARTER_BYTES: u64 = 3 << 20;

/// Six hosts on cables on which 12 MiB take 1 s, a load that permits concurrent tests.
fn relays() -> LabConfig {
    LabConfig {
        rate_bits_per_second: Some(100_000_000),
        ..one_switch(6)
    }
}

/// Creates a transfer from n0 to all others that exceeds the buffers and credit on the way.
fn twelve_mebibytes<'a>(site: &'a Site, via: &'static str) -> Transfer<'a> {
    Transfer::new(site, content(11, 12 * MEBIBYTE)).via(via)
}

/// Creates such a transfer with a short patience.
fn impatient<'a>(site: &'a Site, via: &'static str) -> Transfer<'a> {
    let transfer = twelve_mebibytes(site, via)
        .send_option("--stall")
        .send_option("2");
    transfer.both_options("--patience", "3")
}

/// Creates a transfer of 16 MiB from n0 to all others.
fn sixteen_mebibytes<'a>(site: &'a Site, via: &'static str) -> Transfer<'a> {
    Transfer::new(site, content(1, 16 * MEBIBYTE)).via(via)
}

/// Starts such a transfer and waits for its middle.
pub fn half_way(site: &Site, via: &'static str, witness: &str) -> Session {
    begun(sixteen_mebibytes(site, via), witness)
}

/// Starts a transfer and waits until the witness has a quarter of it.
fn begun(transfer: Transfer<'_>, witness: &str) -> Session {
    let session = transfer.start();
    session.wait_for_bytes(witness, MIDDLE_BYTES);
    session
}

#[test]
fn a_receiver_that_is_started_again_before_the_start_takes_part() {
    let site = Site::beside("again", one_switch(3));
    let bytes = content(3, MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    let root = site.start("n0", &["send", "--json", "-i", "eth0", "-n", "2"], &source);
    let first = site.start("n1", &["recv", "-i", "eth0"], site.path("n1"));
    root.wait_for_line("n1 joined");
    first.signal(Signal::SIGKILL);
    first.end(LIMIT).assert_code(137);
    // At once: the root itself detects that the former run is silent.
    let second = site.start("n1", &["recv", "-i", "eth0"], site.path("n1"));
    root.wait_for_lines(2, "n1 joined");
    let receivers = [
        second,
        site.start("n2", &["recv", "-i", "eth0"], site.path("n2")),
    ];
    let root = root.end(LIMIT);
    root.assert_code(0);
    assert_eq!(root.json()["receivers"].as_array().map(Vec::len), Some(2));
    receivers
        .into_iter()
        .for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    assert!(
        ["n1", "n2"]
            .into_iter()
            .all(|host| std::fs::read(site.path(host)).is_ok_and(|file| file == bytes))
    );
}

#[test]
fn a_host_that_comes_too_late_is_refused_and_disturbs_nobody() {
    let site = Site::beside("late", slow(4));
    let directory = site.directory("dest");
    for via in ["chain", "cast"] {
        let session = Transfer::new(&site, content(4, 16 * MEBIBYTE))
            .receivers(&["n1", "n2"])
            .via(via)
            .start();
        session.wait_for_bytes("n2", MIDDLE_BYTES);
        let late = site.start(
            "n3",
            &["recv", "-i", "eth0", "--once"],
            directory.join("file"),
        );
        late.end(LIMIT)
            .assert_refusal(3, &["is running without this host"]);
        session.end(LIMIT).assert_verified();
        assert_eq!(names_in(&directory), [""; 0]);
    }
}

#[test]
fn one_of_three_receivers_for_two_places_is_refused() {
    let site = Site::beside("full", slow(4));
    let bytes = content(8, 8 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    let receivers = ["n1", "n2", "n3"].map(|host| {
        site.start(
            host,
            &["recv", "-i", "eth0", "--max-wait", "8"],
            site.path(host),
        )
    });
    // All three must be present for the same invitation.
    receivers
        .iter()
        .for_each(|receiver| receiver.wait_for_line("waiting for a sender"));
    let root = site.run("n0", &["send", "-i", "eth0", "-n", "2"], &source);
    root.assert_code(0);
    let (taken, away): (Vec<_>, Vec<_>) = receivers
        .into_iter()
        .map(|receiver| receiver.end(LIMIT))
        .partition(|ended| ended.code() == 0);
    assert_eq!((taken.len(), away.len()), (2, 1));
    away[0].assert_code(3);
    assert!(
        away[0]
            .stderr
            .contains("the session started with 2 of 2 wanted before"),
        "{}",
        away[0].stderr
    );
    assert!(
        root.stdout_text()
            .contains("left out: the session started with 2 of 2"),
        "{}",
        root.stdout_text()
    );
    let files = ["n1", "n2", "n3"]
        .into_iter()
        .filter_map(|host| std::fs::read(site.path(host)).ok());
    assert_eq!(files.filter(|file| *file == bytes).count(), 2);
    assert_eq!(
        names_in(source.parent().expect("a directory")).len(),
        3,
        "the source and two copies"
    );
}

#[test]
fn a_receiver_that_is_started_again_in_the_middle_has_to_wait_for_the_next_session() {
    let site = Site::beside("restart", slow(4));
    let session = half_way(&site, "chain", "n3");
    session.receiver("n2").signal(Signal::SIGKILL);
    let directory = site.directory("dest");
    let again = site.start("n2", &["recv", "-i", "eth0"], directory.join("file"));
    again.wait_for_line("is running without this host; waiting for the next session");
    let outcome = session.end(LIMIT);
    outcome.assert_others_delivered(&["n2"]);
    outcome.root.assert_code(1);
    assert_ne!(outcome.status("n2"), "verified");
    outcome.forget_dead("n2");
    assert_eq!(names_in(&directory), [""; 0]);
    // The next session includes it.
    let bytes = content(5, MEBIBYTE);
    let root = site.run(
        "n0",
        &["send", "-i", "eth0", "--hosts", "n2"],
        site.file("next.bin", &bytes),
    );
    root.assert_code(0);
    again.end(LIMIT).assert_code(0);
    assert!(std::fs::read(directory.join("file")).is_ok_and(|file| file == bytes));
}

#[test]
fn a_receiver_that_is_started_again_under_late_is_one_host_that_has_everything() {
    let site = Site::beside("back", slow(3));
    let transfer = Transfer::new(&site, content(6, 8 * MEBIBYTE))
        .via("chain")
        .send_option("--late");
    let session = transfer.send_option("--no-probe").start();
    session.wait_for_bytes("n2", MIDDLE_BYTES / 2);
    session.receiver("n1").signal(Signal::SIGKILL);
    let again = site.start(
        "n1",
        &["recv", "-i", "eth0", "--once", "--max-wait", "20"],
        site.path("again"),
    );
    let outcome = session.end(LIMIT);
    again.end(LIMIT).assert_code(0);
    outcome.root.assert_code(0);
    outcome.assert_delivered("n2");
    let report = outcome.root.json();
    let hosts: Vec<_> = report["receivers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| row["host"].clone())
        .collect();
    assert_eq!(hosts, ["n2", "n1"], "{report}");
    assert_eq!(
        (outcome.status("n1"), outcome.status("n2")),
        ("verified".to_owned(), "verified".to_owned())
    );
    assert_eq!(report["left_out"], serde_json::json!([]), "{report}");
}

#[test]
fn a_carousel_serves_in_two_copies_who_comes_during_a_round_and_who_comes_back() {
    let site = Site::beside("round", slow(5));
    let bytes = content(13, 8 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    let receive = |host: &str| site.start(host, &["recv", "-i", "eth0"], site.path(host));
    let arguments = ["send", "-i", "eth0", "--json", "--carousel", "-n", "4"];
    let more = ["--min-receivers", "2", "--max-wait", "20", "--linger", "20"];
    let root = site.start("n0", &[&arguments[..], &more[..]].concat(), &source);
    let (first, leaves) = (receive("n1"), receive("n2"));
    root.wait_for_line("to 2 receivers");
    // A round of 1.4 s has begun.
    leaves.signal(Signal::SIGKILL);
    let late = ["n3", "n4"].map(receive);
    let back = receive("n2");
    let root = root.end(LIMIT);
    root.assert_code(0);
    first.end(LIMIT).assert_code(0);
    leaves.end(LIMIT).assert_code(137);
    back.end(LIMIT).assert_code(0);
    late.into_iter()
        .for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    let report = root.json();
    let mut rows: Vec<(&str, &str)> = report["receivers"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|row| Some((row["host"].as_str()?, row["status"].as_str()?)))
        .collect();
    rows.sort_unstable();
    let hosts = ["n1", "n2", "n3", "n4"];
    assert_eq!(rows, hosts.map(|host| (host, "verified")), "{report}");
    assert_eq!(report["left_out"], serde_json::json!([]), "{report}");
    for host in hosts {
        let file = fs::read(site.path(host));
        assert!(file.is_ok_and(|file| file == bytes), "{host}");
    }
    let frames = report["frames"]["data_sent"].as_u64().expect("a number")
        + report["frames"]["data_resent"].as_u64().expect("a number");
    let copy = (8 * MEBIBYTE as u64).div_ceil(1468);
    assert!(
        frames <= copy * 22 / 10,
        "{frames} frames of {copy}: {report}"
    );
}

#[test]
fn a_carousel_that_nobody_joins_and_one_of_a_pipe_end_with_the_reason() {
    let site = Site::beside("empty", one_switch(2));
    let arguments = ["send", "-i", "eth0", "--carousel", "--max-wait", "1"];
    let source = site.file("source.bin", content(3, MEBIBYTE));
    site.run("n0", &arguments, &source)
        .assert_refusal(3, &["0 of 1 receivers joined within 1 s"]);
    let piped = [&arguments[..], &["--pipe"]].concat();
    site.run("n0", &piped, "echo some")
        .assert_refusal(2, &["can be read only once", "send a file"]);
}

/// Words by which the root may report the host.
const WORDS: [&str; 10] = [
    "silent",
    "stall",
    "progress",
    "acknowledg",
    "waits",
    "waiting",
    "reach",
    "starved",
    "verif",
    "nothing",
];

fn of(fault: LinkFault, kind: Kind) -> LinkFault {
    fault.byte(KIND_BYTE, &[kind.0])
}

#[test]
fn whatever_a_cable_loses_one_way_costs_its_host_at_most() {
    let unicast = LinkFault::arriving().unicast();
    for (via, fault) in [
        ("chain", of(LinkFault::leaving(), Kind::ACK)),
        ("cast", of(LinkFault::leaving(), Kind::ACK)),
        ("chain", of(LinkFault::arriving(), Kind::DATA)),
        ("cast", of(LinkFault::arriving(), Kind::DATA)),
        ("chain", unicast),
    ] {
        let site = Site::beside("oneway", relays());
        let session = impatient(&site, via).start();
        session.wait_for_sent(QUARTER_BYTES);
        site.lab()
            .set_faults(CULPRIT, &[fault])
            .expect("nft takes it");
        let outcome = session.end(LIMIT);
        assert!(
            site.lab().faulted_frames(CULPRIT).expect("counters") > 0,
            "nothing was lost"
        );
        outcome.assert_all_but(CULPRIT, &WORDS);
    }
}

#[test]
fn the_last_messages_of_a_relay_are_lost() {
    let site = Site::beside("done", relays());
    // It sends none before its end.
    site.lab()
        .set_faults(CULPRIT, &[of(LinkFault::leaving(), kind::DONE)])
        .expect("nft takes it");
    let outcome = impatient(&site, "chain").start().end(LIMIT);
    assert!(
        site.lab().faulted_frames(CULPRIT).expect("counters") > 0,
        "nothing was lost"
    );
    outcome.assert_all_but(CULPRIT, &WORDS);
}

#[test]
fn a_relay_that_hears_only_its_own_address_gets_the_file() {
    let site = Site::beside("multicast", relays());
    let session = impatient(&site, "chain").start();
    session.wait_for_sent(QUARTER_BYTES);
    site.lab()
        .set_faults(CULPRIT, &[LinkFault::arriving().multicast()])
        .expect("nft takes it");
    session.end(LIMIT).assert_verified();
}

#[test]
fn two_neighbours_of_a_chain_that_may_not_talk_to_each_other_both_get_the_file() {
    let site = Site::beside("pair", relays());
    let session = impatient(&site, "chain").start();
    session.wait_for_sent(QUARTER_BYTES);
    let before = site.lab().mac("n2").expect("an address");
    let faults = [
        LinkFault::arriving().peer(before.clone()),
        LinkFault::leaving().peer(before),
    ];
    site.lab()
        .set_faults(CULPRIT, &faults)
        .expect("nft takes it");
    session.end(LIMIT).assert_verified();
}

#[test]
fn a_host_that_never_receives_the_view_does_not_keep_the_others_from_starting() {
    let site = Site::beside("view", relays());
    site.lab()
        .set_faults(CULPRIT, &[of(LinkFault::arriving(), kind::VIEW)])
        .expect("nft takes it");
    // Limit on its wait for another sender.
    let transfer = impatient(&site, "chain")
        .receive_option("--max-wait")
        .receive_option("5");
    transfer.start().end(LIMIT).assert_all_but(CULPRIT, &WORDS);
}

#[test]
fn a_cable_that_takes_no_large_frames_is_found_before_the_start() {
    let site = Site::beside(
        "mtu",
        LabConfig {
            mtu_bytes: 9000,
            ..relays()
        },
    );
    let small = [
        LinkFault::arriving().longer_than(1500),
        LinkFault::leaving().longer_than(1500),
    ];
    site.lab()
        .set_faults(CULPRIT, &small)
        .expect("nft takes it");
    // Five are wanted, and four suffice after --max-wait.
    let transfer = impatient(&site, "chain")
        .send_option("--min-receivers")
        .send_option("4")
        .max_wait("3");
    let outcome = transfer
        .receive_option("--max-wait")
        .receive_option("6")
        .start()
        .end(LIMIT);
    outcome.assert_others_delivered(&[CULPRIT]);
    outcome.assert_named(CULPRIT, &["MTU", "1500", "9000", "large"]);
    // The MTU is the reason after the start, too.
    outcome.assert_nothing(CULPRIT, 4);
}

#[test]
fn a_cable_that_is_cut_for_good_costs_the_patience_and_is_named() {
    let site = Site::beside("cut", relays());
    let session = impatient(&site, "chain").start();
    session.wait_for_sent(QUARTER_BYTES);
    site.lab().set_port(CULPRIT, false).expect("down");
    let outcome = session.end(LIMIT);
    outcome.assert_all_but(CULPRIT, &["silent"]);
    outcome.assert_nothing(CULPRIT, 3);
}

#[test]
fn a_reader_that_stops_for_good_is_given_up_and_named() {
    for via in ["chain", "cast"] {
        let site = Site::beside("reader", relays());
        let outcome = impatient(&site, via)
            .reader(CULPRIT, Reader::Stopped)
            .start()
            .end(LIMIT);
        outcome.assert_all_but(
            CULPRIT,
            &["reader", "disk", "taken", "application", "stall"],
        );
    }
}

#[test]
fn a_reader_that_is_slower_than_the_cable_gets_all_and_does_not_hold_the_others() {
    let site = Site::beside("slowreader", relays());
    // 2.8 s on the cable and 33 s for this reader; its host buffers less than half of the content.
    let bytes = content(12, 32 * MEBIBYTE);
    for via in ["chain", "cast"] {
        let transfer = Transfer::new(&site, bytes.clone())
            .via(via)
            .send_option("--slow-after")
            .send_option("1");
        let reader = Reader::Slow {
            bytes_per_second: 1_000_000,
        };
        let outcome = transfer.reader(CULPRIT, reader).start().end(LIMIT);
        outcome.root.assert_code(0);
        assert!(
            outcome.receiver(CULPRIT).stdout == bytes,
            "what the reader has read"
        );
        for host in ["n1", "n2", "n4", "n5"] {
            outcome.assert_delivered(host);
            let (seconds, slow) = (outcome.seconds_of(host), outcome.seconds_of(CULPRIT));
            // If it delayed the others, they would wait for more than half of its time.
            assert!(
                seconds < slow / 2.0,
                "{host} had to wait for the slow reader: {seconds} of {slow} s, {via}"
            );
        }
        assert!(outcome.seconds_of(CULPRIT) > 10.0);
        outcome.assert_named(CULPRIT, &["slow", "disk", "reader"]);
    }
}

#[test]
fn a_write_back_error_that_an_early_sync_was_told_of_fails_the_receiver_though_the_last_sync_succeeds()
 {
    const MEBIBYTE: usize = 1 << 20;
    // Slow enough for syncs in the middle: 48 MiB take 2.5 s.
    let site = Site::beside(
        "writeback",
        LabConfig {
            rate_bits_per_second: Some(160_000_000),
            ..one_switch(3)
        },
    );
    let _shared = SharedDirectory::make(&site.directory("disks")).expect("a bind mount");
    let disk = ThinDisk::make(
        &site.directory("disks/store"),
        &site.directory("disks/thin"),
        20,
    )
    .expect("a disk");
    let bytes = content(7, 48 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    let (broken, sound) = (disk.mount().join("file"), site.path("sound"));
    let receivers = [("n1", &broken), ("n2", &sound)]
        .map(|(host, dest)| site.start(host, &["recv", "-i", "eth0", "--max-wait", "10"], dest));
    let mut send = site.ethbcast("n0", ["send", "-i", "eth0", "-n", "2", "--via", "cast"]);
    send.arg(&source);
    let root = ethbcast_tests::lab::Run::start("n0", send);
    // Once blocks are lost there is space again, so that later writes succeed.
    let written = || receivers[0].open_bytes(disk.mount()).unwrap_or(0);
    within(LIMIT, || (written() > 4 << 20).then_some(())).expect("it is written to");
    let is_given_up = || written() == 0;
    within(LIMIT, || {
        (disk.has_lost_blocks() || is_given_up()).then_some(())
    })
    .expect("its store is too small");
    let lost_at = written();
    within(LIMIT, || {
        (written() > lost_at + (10 << 20) || is_given_up()).then_some(())
    })
    .expect("an early sync comes each 8 MiB");
    disk.grow().expect("room");
    let [broken_run, sound_run] = receivers.map(|run| run.end(LIMIT));
    // On a busy machine a write may report the lost blocks before a sync does.
    broken_run.assert_refusal(4, &["cannot "]);
    sound_run.assert_code(0);
    root.end(LIMIT).assert_code(1);
    disk.reread().expect("mounted anew");
    assert_eq!(
        shown_in(disk.mount()),
        ["lost+found"],
        "nothing is shown that may lack blocks"
    );
    assert!(fs::read(&sound).is_ok_and(|file| file == bytes));
}

/// Twelve of the transfers that `chaos` plays (docs/testing.md), with random faults drawn from a
/// seed.
#[test]
fn twelve_transfers_with_troubles_end_as_they_must() {
    require_root();
    let program = Program::find(Some(Path::new(PROGRAM))).expect("cargo has built it");
    let seconds = Duration::from_secs;
    // A machine that builds and tests is busy.
    let terms = Terms {
        stall: seconds(4),
        patience: seconds(5),
        send_wait: seconds(4),
        receive_wait: seconds(7),
        slack: 10.0,
    };
    let (lab, interrupted) = (lab_name("chaos"), AtomicBool::new(false));
    let campaign = Campaign {
        program: &program,
        lab: &lab,
        jobs: 2,
        terms,
        only: None,
        interrupted: &interrupted,
    };
    let results = campaign
        .run(5000..5012, |scenario, result| match result {
            Ok(verdict) if verdict.wrong.is_empty() => {}
            Ok(verdict) => eprintln!("{scenario}: {}\n{}", verdict.wrong.join("; "), verdict.said),
            Err(error) => eprintln!("{scenario}: {error:#}"),
        })
        .expect("labs come up");
    print!("{}", results.tally.text());
    assert!(
        results.failures.is_empty(),
        "{}",
        results.failures.join("\n")
    );
}

/// A lab of six hosts on cables of 50 Mbit/s, but for the hosts that `slow` describes.
fn with_slow_cables(slow: &str) -> LabConfig {
    let text = format!("schema = 1\nswitch = [{{name='s0', hosts='n[0-5]'}}]\n{slow}");
    let topology = Topology::parse(&text, "lab").expect("a topology");
    LabConfig {
        rate_bits_per_second: Some(50_000_000),
        ..LabConfig::new(topology)
    }
}

#[test]
fn a_host_on_a_cable_of_a_fifth_hardly_holds_up_the_others_and_is_named_with_its_rate() {
    let bytes = content(13, 12 * MEBIBYTE);
    let taken = |slow: &str, judge: &dyn Fn(&Outcome)| {
        let site = Site::beside("slowcable", with_slow_cables(slow));
        let outcome = Transfer::new(&site, bytes.clone())
            .via("chain")
            .start()
            .end(LIMIT);
        outcome.assert_verified();
        judge(&outcome);
        ["n1", "n3", "n4", "n5"]
            .map(|host| outcome.seconds_of(host))
            .into_iter()
            .fold(0.0, f64::max)
    };
    let even = taken("", &|outcome| {
        assert_eq!(
            outcome.root.json()["run"]["aside"].as_array().map(Vec::len),
            Some(0)
        );
    });
    let others = taken("host = [{name='n2', rate='10mbit'}]", &|outcome| {
        let json = outcome.root.json();
        // On a busy machine trains may not tell the two ends of the cable from each other.
        let demoted = json["run"]["aside"].as_array().expect("a list");
        assert!(
            demoted.len() == 1 && (demoted[0] == "n2" || demoted[0] == "n1"),
            "{json}"
        );
        let cause = json["limited_by"].as_str().unwrap_or_default();
        assert!(cause.contains("n2") && cause.contains("bit/s"), "{cause}");
    });
    // If they waited for it, they would take five times as long.
    assert!(others < even * 2.5, "{others} s instead of {even}");
}
