//! `recv --in-place`: existing data is changed within the available space.

use super::slow;
use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Site, content, names_in, one_switch, within};
use ethbcast_tests::lab::SmallDisk;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const RECV: [&str; 7] = ["recv", "--once", "-i", "eth0", "--max-wait", "20", "--in-place"];
const SEND: [&str; 8] = ["send", "-i", "eth0", "-n", "1", "--max-wait", "10", "--json"];

/// Sends to n1, which changes `dest`. Returns the sender's JSON.
fn transfer(site: &Site, source: &Path, dest: &Path) -> Value {
    let receiver = site.start("n1", &RECV, dest);
    let root = site.run("n0", &SEND, source);
    receiver.end(LIMIT).assert_code(0);
    root.assert_code(0);
    root.json()
}

#[test]
fn a_file_is_written_over_within_the_room_there_is_and_the_same_one_not_at_all() {
    let site = Site::beside("over", one_switch(2));
    let _disk = SmallDisk::mount(&site.directory("disk"), 6 * MEBIBYTE as u64).expect("a tmpfs");
    let (mut bytes, dest) = (content(1, 4 * MEBIBYTE), site.path("disk/file"));
    fs::write(&dest, &bytes).expect("room");
    bytes[MEBIBYTE..2 * MEBIBYTE].fill(7);
    let source = site.file("source", &bytes);
    let inode = dest.metadata().expect("there").ino();
    // There is no space for a whole copy beside it.
    let beside = [&RECV[..6], &["--force"]].concat();
    let receiver = site.start("n1", &beside, &dest);
    site.run("n0", &["send", "-i", "eth0", "-n", "1", "--max-wait", "2"], &source).assert_code(3);
    receiver.end(LIMIT).assert_refusal(4, &["room for", "[E-SPACE]"]);
    for lacks in [true, false] {
        transfer(&site, &source, &dest);
        assert!(fs::read(&dest).is_ok_and(|found| found == bytes), "changed: {lacks}");
        assert_eq!(dest.metadata().expect("there").ino(), inode, "it is the same file");
        assert_eq!(names_in(&site.path("disk")), ["file"]);
    }
}

#[test]
fn a_file_that_was_half_written_over_is_named_as_neither_old_nor_new_and_the_next_run_completes_it() {
    let site = Site::beside("broken", slow(2));
    let (old, new) = (content(1, 8 * MEBIBYTE), content(2, 8 * MEBIBYTE));
    let (disk, source) = (site.directory("disk"), site.file("source", &new));
    let dest = disk.join("file");
    fs::write(&dest, &old).expect("room");
    let receiver = site.start("n1", &RECV, &dest);
    let sender = site.start("n0", &["send", "-i", "eth0", "-n", "1", "--max-wait", "10"], &source);
    within(LIMIT, || (!dest.exists()).then_some(())).expect("it is never written over");
    std::thread::sleep(std::time::Duration::from_millis(300));
    receiver.signal(Signal::SIGTERM);
    receiver.end(LIMIT).assert_refusal(143, &["neither old nor new", ".part", "next recv"]);
    sender.end(LIMIT).assert_code(1);
    let left = names_in(&disk);
    assert!(left.len() == 2 && left.iter().all(|name| name.starts_with(".ethbcast-")), "{left:?}");
    // Without --in-place as well.
    let receiver = site.start("n1", &RECV[..6], &dest);
    site.run("n0", &SEND, &source).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert!(fs::read(&dest).is_ok_and(|found| found == new));
    assert_eq!(names_in(&disk), ["file"]);
}

#[test]
fn a_directory_is_changed_file_by_file_within_the_room_there_is() {
    let site = Site::beside("files", one_switch(2));
    let _disk = SmallDisk::mount(&site.directory("disk"), 11 * MEBIBYTE as u64).expect("a tmpfs");
    let (source, dest) = (site.directory("source"), site.directory("disk/dest"));
    let mut inodes = Vec::new();
    for number in 0..4 {
        let bytes = content(number, 2 * MEBIBYTE);
        fs::write(dest.join(format!("file-{number}")), &bytes).expect("room");
        inodes.push(dest.join(format!("file-{number}")).metadata().expect("there").ino());
        let changed = if number == 3 { bytes } else { content(100 + number, 2 * MEBIBYTE) };
        fs::write(source.join(format!("file-{number}")), changed).expect("room");
    }
    fs::write(dest.join("only here"), "stays").expect("room");
    transfer(&site, &source.join(""), &dest.join(""));
    for number in 0..4 {
        let name = format!("file-{number}");
        assert_eq!(fs::read(dest.join(&name)).ok(), fs::read(source.join(&name)).ok(), "{name}");
        let inode = dest.join(&name).metadata().expect("there").ino();
        assert_eq!(inode == inodes[number as usize], number == 3, "{name}");
    }
    assert_eq!(names_in(&dest).len(), 5);
}
