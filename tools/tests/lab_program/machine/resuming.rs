//! Tests of receivers that are killed or cut off, and resume from their partial files.

use super::slow;
use crate::harness::{
    Ended, Ethbcast, LIMIT, MEBIBYTE, PROGRAM, Run, Session, Site, Transfer, content, names_in,
    one_switch, shown_in, within,
};
use ethbcast_collectives::session::{Progress, SendOptions, Session as Group};
use ethbcast_lab::LabConfig;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

const RECV: [&str; 5] = ["recv", "-i", "eth0", "--max-wait", "20"];

/// Returns the data bytes that the root has sent, by its report.
fn sent_bytes(root: &Ended) -> u64 {
    let report = root.json();
    let frames = |kind: &str| {
        report["frames"][kind]
            .as_u64()
            .unwrap_or_else(|| panic!("no {kind} in {report}"))
    };
    (frames("data_sent") + frames("data_resent")) * 1500
}

fn send(site: &Site, options: &[&str], source: &Path) -> Ended {
    let mut arguments = vec!["send", "-i", "eth0", "--json"];
    arguments.extend(options);
    site.start("n0", &arguments, source).end(LIMIT)
}

#[test]
fn a_receiver_that_was_killed_goes_on_where_it_was_and_no_resume_begins_anew() {
    let site = Site::beside("resume", slow(2));
    let bytes = content(1, 16 * MEBIBYTE);
    let (source, directory) = (site.file("source.bin", &bytes), site.directory("dest"));
    let dest = directory.join("file");
    // Kept data is usable with any chunk size.
    let (some, all) = (1..14 << 20, 16 << 20..u64::MAX);
    let then = [
        (&[][..], "64K", &some),
        (&[], "32K", &some),
        (&["--no-resume"], "64K", &all),
    ];
    for (options, chunk, expected) in then {
        let arguments = [&RECV[..], options].concat();
        let receiver = site.start("n1", &RECV, &dest);
        let root = site.start(
            "n0",
            &["send", "-i", "eth0", "-n", "1", "--via", "chain"],
            &source,
        );
        let written = || {
            receiver
                .open_bytes(&directory)
                .filter(|&bytes| bytes > 9 << 20)
        };
        within(LIMIT, written).expect("it is written to");
        receiver.signal(Signal::SIGKILL);
        drop((receiver, root));
        assert_eq!(
            (shown_in(&directory).len(), names_in(&directory).len()),
            (0, 2),
            "data and journal"
        );
        let receiver = site.start("n1", &arguments, &dest);
        let root = send(
            &site,
            &["-n", "1", "--via", "chain", "--chunk", chunk],
            &source,
        );
        receiver.end(LIMIT).assert_code(0);
        root.assert_code(0);
        assert!(fs::read(&dest).is_ok_and(|file| file == bytes));
        assert_eq!(names_in(&directory), ["file"]);
        assert!(
            expected.contains(&sent_bytes(&root)),
            "{options:?}, {chunk}: {} bytes",
            sent_bytes(&root)
        );
        fs::remove_file(&dest).expect("ours");
    }
}

/// A program sends by the library, and is cancelled half way; then one host has an earlier version.
#[test]
fn a_file_of_the_library_goes_on_where_it_was_and_is_an_update_of_what_is_there() {
    let site = Site::beside("library", slow(3));
    let bytes = content(4, 16 * MEBIBYTE);
    let (source, directory) = (site.file("source.bin", &bytes), site.directory("dest"));
    let dest = directory.join("file");
    let send = |receivers, cancelled_at: u64| {
        let mut options = SendOptions::new().receivers(receivers);
        options.run.time_limit = Some(LIMIT);
        let cancel = options.run.cancel.clone();
        options.run.on_progress(move |progress| {
            if matches!(progress, Progress::Moved { bytes, .. } if bytes >= cancelled_at) {
                cancel.cancel();
            }
        });
        let file = fs::File::open(&source).expect("it is there");
        site.lab()
            .run_on("n0", || Group::send_file("lib", file, &options))
            .expect("a host of this lab")
    };
    let recv = [&RECV[..], &["-g", "lib"]].concat();
    let receiver = site.start("n1", &recv, &dest);
    assert!(send(1, 9 << 20).is_err());
    receiver.end(LIMIT);
    assert_eq!(
        (shown_in(&directory).len(), names_in(&directory).len()),
        (0, 2),
        "data and journal"
    );
    let mut old = bytes.clone();
    old[12_000_000] ^= 1;
    let other = site.file("n2", old);
    let receivers = [
        site.start("n1", &recv, &dest),
        site.start("n2", &[&recv[..], &["--force"]].concat(), &other),
    ];
    let report = send(2, u64::MAX).expect("both have it");
    receivers
        .into_iter()
        .for_each(|run| run.end(LIMIT).assert_code(0));
    assert!(
        [&dest, &other]
            .iter()
            .all(|dest| fs::read(dest).is_ok_and(|file| file == bytes))
    );
    let sent = report.sent_bytes.expect("only what is lacking is sent");
    assert!((1..13 << 20).contains(&sent), "{sent} bytes of 16 MiB");
    assert_eq!(
        fs::metadata(&dest).expect("there").mtime(),
        fs::metadata(&source).expect("there").mtime()
    );
}

/// Writes an older version of the bytes at each receiver: with a common change, and one that only
/// n3 has.
fn older_images(site: &Site, bytes: &[u8]) -> [(&'static str, PathBuf); 3] {
    ["n1", "n2", "n3"].map(|host| {
        let mut old = bytes.to_vec();
        old[5_000_000] ^= 1;
        old[12_000_000] ^= u8::from(host == "n3");
        (host, site.file(host, old))
    })
}

#[test]
fn only_the_changed_chunks_of_an_image_are_sent() {
    let site = Site::beside("update", slow(4));
    let bytes = content(2, 16 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    let dests = older_images(&site, &bytes);
    let runs = dests
        .each_ref()
        .map(|(host, dest)| site.start(host, &[&RECV[..], &["--force"]].concat(), dest));
    let root = send(&site, &["-n", "3"], &source);
    runs.into_iter()
        .for_each(|run| run.end(LIMIT).assert_code(0));
    root.assert_code(0);
    for (host, dest) in &dests {
        assert!(fs::read(dest).is_ok_and(|file| file == bytes), "{host}");
    }
    assert!(
        sent_bytes(&root) < MEBIBYTE as u64,
        "{} bytes for two chunks and the hash lists",
        sent_bytes(&root)
    );
}

#[test]
fn a_dry_run_says_what_an_update_would_send_and_the_receivers_wait_on() {
    let site = Site::beside("asked", slow(4));
    let bytes = content(6, 16 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    let dests = older_images(&site, &bytes);
    let runs = dests
        .each_ref()
        .map(|(host, dest)| site.start(host, &[&RECV[..], &["--force"]].concat(), dest));
    let sizes = [
        (&[][..], 64 << 10),
        (&["--chunk", "16K"], 16 << 10),
        (&["--chunk", "128K"], 128 << 10),
    ];
    for (options, chunk) in sizes {
        let asked = send(
            &site,
            &[&["-n", "3", "--dry-run"], options].concat(),
            &source,
        );
        asked.assert_code(0);
        let report = asked.json();
        assert_eq!(report["lacking_bytes"], 2 * chunk, "{report}");
        assert_eq!(report["lacking_alone_bytes"], chunk, "{report}");
    }
    let root = send(&site, &["-n", "3", "--chunk", "16K"], &source);
    runs.into_iter()
        .for_each(|run| run.end(LIMIT).assert_code(0));
    root.assert_code(0);
    for (host, dest) in &dests {
        assert!(fs::read(dest).is_ok_and(|file| file == bytes), "{host}");
    }
}

#[test]
fn an_update_says_how_far_it_is_of_all_that_there_is() {
    let site = Site::beside("updated", slow(2));
    let bytes = content(9, 16 * MEBIBYTE);
    let (source, mut old) = (site.file("source.bin", &bytes), bytes.clone());
    old[8 * MEBIBYTE..].fill(7);
    let dest = site.file("old", old);
    let receiver = site.start(
        "n1",
        &[&RECV[..], &["--force", "--stat-period", "0.2"]].concat(),
        &dest,
    );
    let root = site
        .start(
            "n0",
            &["send", "-i", "eth0", "-n", "1", "--json-stream"],
            &source,
        )
        .end(LIMIT);
    let receiver = receiver.end(LIMIT);
    receiver.assert_code(0);
    root.assert_code(0);
    let text = root.stdout_text();
    let events = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let progress: Vec<Value> = events
        .filter(|event| event["event"] == "progress")
        .collect();
    assert!(
        !progress.is_empty() && progress.iter().all(|event| event["size"] == 16 << 20),
        "{progress:?}"
    );
    let came: Vec<u64> = progress
        .iter()
        .filter_map(|event| event["bytes"].as_u64())
        .collect();
    assert!(
        came.is_sorted()
            && came.len() == progress.len()
            && came.iter().all(|&bytes| bytes <= 16 << 20),
        "{came:?}"
    );
    assert!(
        receiver.stderr.contains(" of 16.00 MiB ("),
        "{}",
        receiver.stderr
    );
    let line = receiver.stdout_text();
    assert!(
        line.contains("16.00 MiB verified in ") && line.contains(" received)"),
        "{line}"
    );
}

#[test]
fn a_file_with_holes_that_was_cut_off_is_taken_up_and_its_holes_are_holes() {
    let site = Site::beside("holes", slow(2));
    let (source, directory) = (site.path("image"), site.directory("dest"));
    let bytes = content(8, 20 * MEBIBYTE);
    let image = fs::File::create(&source).expect("room");
    image.set_len(4 << 30).expect("a hole");
    for (number, part) in bytes.chunks(MEBIBYTE).enumerate() {
        image
            .write_all_at(part, (number as u64) * (200 << 20))
            .expect("room");
    }
    let dest = directory.join("image");
    let receiver = site.start("n1", &RECV, &dest);
    let root = site.start(
        "n0",
        &["send", "-i", "eth0", "-n", "1", "--via", "chain"],
        &source,
    );
    let allocated = || {
        names_in(&directory)
            .iter()
            .map(|name| blocks(&directory.join(name)))
            .sum::<u64>()
    };
    within(LIMIT, || (allocated() > 12 << 20).then_some(())).expect("it is written to");
    receiver.signal(Signal::SIGKILL);
    drop((receiver, root));
    let receiver = site.start("n1", &RECV, &dest);
    let root = send(&site, &["-n", "1", "--via", "chain"], &source);
    receiver.end(LIMIT).assert_code(0);
    root.assert_code(0);
    assert!(sent_bytes(&root) <= 16 << 20, "{} bytes", sent_bytes(&root));
    let received = fs::File::open(&dest).expect("it is there");
    for (number, part) in bytes.chunks(MEBIBYTE).enumerate() {
        let mut found = vec![0; part.len()];
        received
            .read_exact_at(&mut found, (number as u64) * (200 << 20))
            .expect("so long");
        assert!(found == part, "part {number}");
    }
    assert!(
        blocks(&dest) < 30 << 20,
        "{} bytes on the disk",
        blocks(&dest)
    );
    assert_eq!(names_in(&directory), ["image"]);
}

/// Returns the allocated bytes of a file.
fn blocks(path: &Path) -> u64 {
    path.metadata()
        .map_or(0, |metadata| metadata.blocks() * 512)
}

#[test]
fn moved_data_is_found_in_a_basis_of_another_name() {
    let site = Site::beside("moved", slow(2));
    let bytes = content(3, 8 * MEBIBYTE);
    let source = site.file("source.tar", &bytes);
    let old = site.file(
        "old.tar",
        [&bytes[..MEBIBYTE], b"seventeen bytes  ", &bytes[MEBIBYTE..]].concat(),
    );
    let dest = site.path("dest");
    let basis = ["--basis", old.to_str().expect("ours")];
    let receiver = site.start("n1", &[&RECV[..], &basis].concat(), &dest);
    let root = send(&site, &["-n", "1", "--delta", "cdc"], &source);
    receiver.end(LIMIT).assert_code(0);
    root.assert_code(0);
    assert!(fs::read(&dest).is_ok_and(|file| file == bytes));
    assert!(
        sent_bytes(&root) < MEBIBYTE as u64,
        "{} bytes",
        sent_bytes(&root)
    );
    let missing = site.run(
        "n1",
        &["recv", "-i", "eth0", "--basis", "/nowhere"],
        site.path("other"),
    );
    missing.assert_refusal(4, &["cannot read the basis /nowhere", "--basis"]);
}

const RECEIVERS: [&str; 3] = ["n1", "n2", "n3"];
const CHUNK_BYTES: u64 = 64 << 10;
/// Limit on the data that a receiver loses from memory: spans waiting for a slow disk, and the
/// feed.
const IN_MEMORY_BYTES: u64 = 18 << 20;

/// A run whose receivers each start or resume in a directory of their own.
struct Cut<'a> {
    site: &'a Site,
    source: PathBuf,
    via: &'static str,
}

impl Cut<'_> {
    fn sent(&self) -> u64 {
        self.site
            .lab()
            .counters("n0")
            .expect("a host of this lab")
            .sent_bytes
    }

    fn dest(&self, host: &str) -> PathBuf {
        self.site.path(host).join("it")
    }

    /// Returns the bytes on the root's cable in a run, which is killed after `killed_at` bytes if
    /// given.
    fn run(&self, killed_at: Option<u64>) -> u64 {
        let before = self.sent();
        let recv = ["recv", "-i", "eth0", "--max-wait", "20"];
        let receivers: Vec<_> = RECEIVERS
            .iter()
            .map(|host| self.site.start(host, &recv, self.dest(host)))
            .collect();
        let send = [
            "send",
            "-i",
            "eth0",
            "-n",
            "3",
            "--no-probe",
            "--via",
            self.via,
            "--json",
        ];
        let root = self.site.start("n0", &send, &self.source);
        if let Some(at) = killed_at {
            within(LIMIT, || (self.sent() - before >= at).then_some(())).expect("it sends");
            receivers
                .iter()
                .chain([&root])
                .for_each(|run| run.signal(Signal::SIGKILL));
            drop((receivers, root));
            return self.sent() - before;
        }
        receivers
            .into_iter()
            .for_each(|receiver| receiver.end(LIMIT).assert_code(0));
        root.end(LIMIT).assert_code(0);
        for host in RECEIVERS {
            let dest = self.dest(host);
            let mut diff = Command::new("diff");
            diff.arg("-rq").args([&self.source, &dest]);
            assert_eq!(Run::to_end(diff, LIMIT).code(), 0, "{host}");
            if dest.is_dir() {
                fs::remove_dir_all(dest)
            } else {
                fs::remove_file(dest)
            }
            .expect("ours");
        }
        self.sent() - before
    }
}

/// Creates a directory of many small files.
fn tree(at: &Path, bytes: &[u8]) -> PathBuf {
    for (number, part) in bytes.chunks(17_000).enumerate() {
        let directory = at.join(format!("d{}", number / 100));
        fs::create_dir_all(&directory).expect("room");
        fs::write(directory.join(format!("f{number}")), part).expect("room");
    }
    at.join("")
}

/// Limit on the cost of both runs, relative to a single one.
const SHARE: f64 = 1.02;

#[test]
fn a_run_that_was_killed_whole_and_the_one_after_it_send_hardly_more_than_one() {
    let cuts: Option<u64> = std::env::var("ETHBCAST_CUTS")
        .ok()
        .and_then(|cuts| cuts.parse().ok());
    let bytes = cuts.map_or(32, |_| 128) * MEBIBYTE;
    let site = Site::beside(
        "cutoff",
        LabConfig {
            rate_bits_per_second: Some(100_000_000),
            ..one_switch(4)
        },
    );
    RECEIVERS.iter().for_each(|host| drop(site.directory(host)));
    let file = || site.file("source.bin", content(11, bytes));
    let tree = || tree(&site.directory("source"), &content(12, bytes));
    let kinds = [("chain", tree()), ("cast", file())];
    for (via, source) in kinds.into_iter().take(cuts.map_or(1, |_| 2)) {
        let cut = Cut {
            site: &site,
            source,
            via,
        };
        let one = cuts.map_or(bytes as u64 / 100 * 105, |_| cut.run(None));
        let mut dear = 0;
        for number in 0..cuts.unwrap_or(1) {
            // Spread between the first and the last bytes.
            let hundredths = cuts.map_or(90, |_| {
                3 + (number * 37 + u64::from(via == "cast") * 20 + 41) % 94
            });
            let killed = cut.run(Some(bytes as u64 / 100 * hundredths));
            let rest = cut.run(None);
            let share = (killed + rest) as f64 / one as f64;
            println!(
                "{via}: killed at {hundredths} %, {killed} + {rest} bytes, {share:.4} of one run"
            );
            let most = one + IN_MEMORY_BYTES + RECEIVERS.len() as u64 * CHUNK_BYTES;
            assert!(
                killed + rest <= most,
                "{via}, killed at {hundredths} %: {killed} + {rest} of {one} bytes"
            );
            dear += u64::from(
                killed + rest > (one as f64 * SHARE) as u64 + RECEIVERS.len() as u64 * CHUNK_BYTES,
            );
        }
        println!("{via}: {dear} runs cost more than {SHARE} of {one} bytes");
    }
}

/// Starts a transfer of 16 MiB from n0 to n1 and n2, and waits for its middle.
fn half_way_in_a_chain(site: &Site) -> Session {
    let transfer = Transfer::new(site, content(1, 16 * MEBIBYTE))
        .via("chain")
        .receive_option("--no-resume");
    let session = transfer.start();
    session.wait_for_bytes("n2", 4 << 20);
    session
}

#[test]
fn a_receiver_that_is_killed_or_interrupted_twice_leaves_nothing() {
    let site = Site::beside("nothing", slow(3));
    let session = half_way_in_a_chain(&site);
    session.receiver("n2").signal(Signal::SIGKILL);
    session.receiver("n1").signal(Signal::SIGINT);
    session.receiver("n1").signal(Signal::SIGTERM);
    let outcome = session.end(LIMIT);
    outcome.assert_nothing("n2", 137);
    // The kernel chooses which of the two comes first.
    let code = outcome.receiver("n1").code();
    assert!([130, 143].contains(&code), "{code}");
    outcome.assert_nothing("n1", code);
    ["n1", "n2"]
        .into_iter()
        .for_each(|host| outcome.assert_nothing_hidden(host));
}

#[test]
fn leftovers_of_dead_receivers_are_removed_by_the_next_and_files_in_use_are_not() {
    let site = Site::beside("stale", slow(2));
    let directory = site.directory("dest");
    fs::write(directory.join(".ethbcast-a1B2c3.part"), "half").expect("room");
    let beside = directory.join(".ethbcast-f0O1x2.part");
    let held = fs::File::create(&beside).expect("room");
    let held =
        nix::fcntl::Flock::lock(held, nix::fcntl::FlockArg::LockExclusive).expect("nobody else's");
    let receiver = site.run(
        "n1",
        &["recv", "-i", "eth0", "--max-wait", "0.2"],
        directory.join("file"),
    );
    receiver.assert_refusal(3, &["no sender was heard"]);
    assert_eq!(names_in(&directory), [".ethbcast-f0O1x2.part"]);
    drop(held);
    site.run(
        "n1",
        &["recv", "-i", "eth0", "--max-wait", "0.2"],
        directory.join("file"),
    )
    .assert_code(3);
    assert_eq!(names_in(&directory), [""; 0]);
}

#[test]
fn a_limit_on_the_size_of_files_is_a_reason_and_not_a_death() {
    let site = Site::beside("limit", slow(2));
    let (source, directory) = (
        site.file("source.bin", content(3, 4 * MEBIBYTE)),
        site.directory("dest"),
    );
    let root = site.start("n0", &["send", "-i", "eth0", "-n", "1"], &source);
    let mut limited: Command = site.command("n1", "sh");
    limited.args([
        "-c",
        "ulimit -f 1024; exec \"$0\" recv --no-resume -i eth0 --max-wait 10 \"$1\"",
        PROGRAM,
    ]);
    limited.arg(directory.join("file"));
    let receiver = crate::harness::Run::start("n1", limited).end(LIMIT);
    receiver.assert_refusal(4, &["cannot write", "ulimit -f"]);
    assert_eq!(shown_in(&directory), [""; 0]);
    let root = root.end(LIMIT);
    root.assert_code(1);
    assert!(root.stderr.contains("n1 (no-space)"), "{}", root.stderr);
}

/// Starts a transfer of 16 MiB from n0 to n1, n2 and n3, and waits for its middle.
fn half_way_at_the_last(site: &Site, via: &'static str) -> Session {
    let session = Transfer::new(site, content(1, 16 * MEBIBYTE))
        .via(via)
        .start();
    session.wait_for_bytes("n3", 4 << 20);
    session
}

/// Returns the ids of a process's children.
pub fn children(run: &Run) -> Vec<u32> {
    let pid = run.pid();
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed
        .split_whitespace()
        .filter_map(|child| child.parse().ok())
        .collect()
}

/// Fails unless these processes end.
#[track_caller]
pub fn assert_gone(pids: &[u32]) {
    let gone = within(LIMIT, || {
        pids.iter().all(|&pid| !is_alive(pid)).then_some(())
    });
    assert!(gone.is_some(), "of {pids:?} some live");
}

fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn when_the_root_is_killed_its_receivers_end_at_once_and_say_why() {
    let site = Site::beside("headless", slow(4));
    for via in ["chain", "cast"] {
        let session = half_way_at_the_last(&site, via);
        let watchers: Vec<_> = ["n1", "n2", "n3"]
            .iter()
            .flat_map(|host| children(session.receiver(host)))
            .collect();
        assert_eq!(watchers.len(), 3);
        let own = children(&session.root);
        session.root.signal(Signal::SIGKILL);
        let outcome = session.end(LIMIT);
        for host in ["n1", "n2", "n3"] {
            outcome.assert_nothing(host, 1);
            let said = &outcome.receiver(host).stderr;
            assert!(
                said.contains("the sender's process has ended"),
                "{host}: {said}"
            );
        }
        assert_gone(&watchers);
        assert_gone(&own);
    }
}

#[test]
fn a_watcher_takes_little_memory_and_gets_no_signals_of_the_terminal() {
    let site = Site::beside("little", slow(4));
    let session = half_way_at_the_last(&site, "cast");
    let watcher = children(&session.root)[0];
    let status = fs::read_to_string(format!("/proc/{watcher}/status")).expect("it is there");
    let own_kib = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .expect("Linux says it");
    let own_kib: u64 = own_kib
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .expect("a number");
    println!("{own_kib} KiB of its own");
    assert!(own_kib < 3072, "{own_kib} KiB");
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(watcher as i32), signal)
            .expect("it is there");
    }
    thread::sleep(Duration::from_millis(50));
    assert!(is_alive(watcher));
    session.end(LIMIT).assert_verified();
    assert_gone(&[watcher]);
}

#[test]
fn a_host_whose_interface_is_off_for_a_while_returns_and_nobody_is_lost() {
    let site = Site::beside("switched", slow(4));
    for (host, via, millis) in [
        ("n0", "chain", 500),
        ("n2", "chain", 3000),
        ("n0", "cast", 3000),
        ("n2", "cast", 500),
        ("n0", "chain", 3000),
    ] {
        let session = Transfer::new(&site, content(1, 8 * MEBIBYTE))
            .via(via)
            .start();
        session.wait_for_bytes("n3", 2 << 20);
        site.set_up(host, "ip", &["link", "set", "eth0", "down"]);
        thread::sleep(Duration::from_millis(millis));
        site.set_up(host, "ip", &["link", "set", "eth0", "up"]);
        let outcome = session.end(LIMIT);
        outcome.assert_verified();
        let said = if host == "n0" {
            &outcome.root.stderr
        } else {
            &outcome.receiver(host).stderr
        };
        let [down, back] =
            ["interface has gone down", "interface is back"].map(|line| said.matches(line).count());
        // On a busy machine half a second may pass unnoticed.
        let least = usize::from(millis >= 3000);
        assert!(
            down == back && (least..=1).contains(&down),
            "{host} via {via}: {said}"
        );
    }
}
