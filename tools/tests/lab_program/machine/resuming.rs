//! Resumption of an interrupted run, and an update of existing data: only missing data is sent.

use super::slow;
use crate::harness::{Ended, Ethbcast, LIMIT, MEBIBYTE, Site, content, names_in, shown_in, within};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

const RECV: [&str; 5] = ["recv", "-i", "eth0", "--max-wait", "20"];

/// Returns the data bytes that the root has sent, by its report.
fn sent_bytes(root: &Ended) -> u64 {
    let report = root.json();
    let frames = |kind: &str| report["frames"][kind].as_u64().unwrap_or_else(|| panic!("no {kind} in {report}"));
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
    let then = [(&[][..], "64K", &some), (&[], "32K", &some), (&["--no-resume"], "64K", &all)];
    for (options, chunk, expected) in then {
        let arguments = [&RECV[..], options].concat();
        let receiver = site.start("n1", &RECV, &dest);
        let root = site.start("n0", &["send", "-i", "eth0", "-n", "1", "--via", "chain"], &source);
        let written = || receiver.open_bytes(&directory).filter(|&bytes| bytes > 9 << 20);
        within(LIMIT, written).expect("it is written to");
        receiver.signal(Signal::SIGKILL);
        drop((receiver, root));
        assert_eq!((shown_in(&directory).len(), names_in(&directory).len()), (0, 2), "data and journal");
        let receiver = site.start("n1", &arguments, &dest);
        let root = send(&site, &["-n", "1", "--via", "chain", "--chunk", chunk], &source);
        receiver.end(LIMIT).assert_code(0);
        root.assert_code(0);
        assert!(fs::read(&dest).is_ok_and(|file| file == bytes));
        assert_eq!(names_in(&directory), ["file"]);
        assert!(expected.contains(&sent_bytes(&root)), "{options:?}, {chunk}: {} bytes", sent_bytes(&root));
        fs::remove_file(&dest).expect("ours");
    }
}

#[test]
fn of_an_image_that_has_changed_a_little_only_what_has_changed_is_sent() {
    let site = Site::beside("update", slow(4));
    let bytes = content(2, 16 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    let dests = ["n1", "n2", "n3"].map(|host| {
        let mut old = bytes.clone();
        // A common change, and one that only n3 has.
        old[5_000_000] ^= 1;
        old[12_000_000] ^= u8::from(host == "n3");
        (host, site.file(host, old))
    });
    let runs = dests.each_ref().map(|(host, dest)| site.start(host, &[&RECV[..], &["--force"]].concat(), dest));
    let root = send(&site, &["-n", "3"], &source);
    runs.into_iter().for_each(|run| run.end(LIMIT).assert_code(0));
    root.assert_code(0);
    for (host, dest) in &dests {
        assert!(fs::read(dest).is_ok_and(|file| file == bytes), "{host}");
    }
    assert!(sent_bytes(&root) < MEBIBYTE as u64, "{} bytes for two chunks and the ledgers", sent_bytes(&root));
}

#[test]
fn a_dry_run_says_what_an_update_would_send_and_the_receivers_wait_on() {
    let site = Site::beside("asked", slow(4));
    let bytes = content(6, 16 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    let dests = ["n1", "n2", "n3"].map(|host| {
        let mut old = bytes.clone();
        old[5_000_000] ^= 1;
        old[12_000_000] ^= u8::from(host == "n3");
        (host, site.file(host, old))
    });
    let runs = dests.each_ref().map(|(host, dest)| site.start(host, &[&RECV[..], &["--force"]].concat(), dest));
    let sizes = [(&[][..], 64 << 10), (&["--chunk", "16K"], 16 << 10), (&["--chunk", "128K"], 128 << 10)];
    for (options, chunk) in sizes {
        let asked = send(&site, &[&["-n", "3", "--dry-run"], options].concat(), &source);
        asked.assert_code(0);
        let report = asked.json();
        assert_eq!(report["lacking_bytes"], 2 * chunk, "{report}");
        assert_eq!(report["lacking_alone_bytes"], chunk, "{report}");
    }
    let root = send(&site, &["-n", "3", "--chunk", "16K"], &source);
    runs.into_iter().for_each(|run| run.end(LIMIT).assert_code(0));
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
    let receiver = site.start("n1", &[&RECV[..], &["--force", "--stat-period", "0.2"]].concat(), &dest);
    let root = site.start("n0", &["send", "-i", "eth0", "-n", "1", "--json-stream"], &source).end(LIMIT);
    let receiver = receiver.end(LIMIT);
    receiver.assert_code(0);
    root.assert_code(0);
    let text = root.stdout_text();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let progress: Vec<Value> = events.filter(|event| event["event"] == "progress").collect();
    assert!(!progress.is_empty() && progress.iter().all(|event| event["size"] == 16 << 20), "{progress:?}");
    let came: Vec<u64> = progress.iter().filter_map(|event| event["bytes"].as_u64()).collect();
    assert!(
        came.is_sorted() && came.len() == progress.len() && came.iter().all(|&bytes| bytes <= 16 << 20),
        "{came:?}"
    );
    assert!(receiver.stderr.contains(" of 16.00 MiB ("), "{}", receiver.stderr);
    let line = receiver.stdout_text();
    assert!(line.contains("16.00 MiB verified in ") && line.contains(" received)"), "{line}");
}

#[test]
fn a_file_with_holes_that_was_cut_off_is_taken_up_and_its_holes_are_holes() {
    let site = Site::beside("holes", slow(2));
    let (source, directory) = (site.path("image"), site.directory("dest"));
    let bytes = content(8, 20 * MEBIBYTE);
    let image = fs::File::create(&source).expect("room");
    image.set_len(4 << 30).expect("a hole");
    for (number, part) in bytes.chunks(MEBIBYTE).enumerate() {
        image.write_all_at(part, (number as u64) * (200 << 20)).expect("room");
    }
    let dest = directory.join("image");
    let receiver = site.start("n1", &RECV, &dest);
    let root = site.start("n0", &["send", "-i", "eth0", "-n", "1", "--via", "chain"], &source);
    let allocated = || names_in(&directory).iter().map(|name| blocks(&directory.join(name))).sum::<u64>();
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
        received.read_exact_at(&mut found, (number as u64) * (200 << 20)).expect("so long");
        assert!(found == part, "part {number}");
    }
    assert!(blocks(&dest) < 30 << 20, "{} bytes on the disk", blocks(&dest));
    assert_eq!(names_in(&directory), ["image"]);
}

/// Returns the allocated bytes of a file.
fn blocks(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.blocks() * 512)
}

#[test]
fn what_was_moved_is_found_in_a_basis_of_another_name() {
    let site = Site::beside("moved", slow(2));
    let bytes = content(3, 8 * MEBIBYTE);
    let source = site.file("source.tar", &bytes);
    let old = site.file("old.tar", [&bytes[..MEBIBYTE], b"seventeen bytes  ", &bytes[MEBIBYTE..]].concat());
    let dest = site.path("dest");
    let basis = ["--basis", old.to_str().expect("ours")];
    let receiver = site.start("n1", &[&RECV[..], &basis].concat(), &dest);
    let root = send(&site, &["-n", "1", "--delta", "cdc"], &source);
    receiver.end(LIMIT).assert_code(0);
    root.assert_code(0);
    assert!(fs::read(&dest).is_ok_and(|file| file == bytes));
    assert!(sent_bytes(&root) < MEBIBYTE as u64, "{} bytes", sent_bytes(&root));
    let missing = site.run("n1", &["recv", "-i", "eth0", "--basis", "/nowhere"], site.path("other"));
    missing.assert_refusal(4, &["cannot read the basis /nowhere", "--basis"]);
}
