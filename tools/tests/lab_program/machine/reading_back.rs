//! `--verify read`: data on the disk that differs from the written data.

use super::slow;
use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Site, content, names_in, shown_in, within};
use std::fs;
use std::os::unix::fs::FileExt;

const RECEIVE: [&str; 5] = ["recv", "-i", "eth0", "--max-wait", "10"];

#[test]
fn a_file_that_somebody_else_writes_to_is_found_when_it_is_read_back() {
    let site = Site::beside("readback", slow(3));
    let bytes = content(1, 16 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    let (trusting, checking) = (site.directory("trusting"), site.directory("checking"));
    let receivers = [
        site.start("n1", &RECEIVE, trusting.join("file")),
        site.start("n2", &[&RECEIVE[..], &["--no-resume", "--verify", "read"]].concat(), checking.join("file")),
    ];
    let root = site.start("n0", &["send", "-i", "eth0", "-n", "2", "--via", "cast"], &source);
    for (receiver, directory) in receivers.iter().zip([&trusting, &checking]) {
        within(LIMIT, || receiver.open_bytes(directory).filter(|&bytes| bytes > 4 << 20)).expect("it is written to");
        let file = receiver.open_files(directory).into_iter().find_map(|link| {
            fs::File::options().write(true).open(link).ok().filter(|file| file.metadata().is_ok_and(|it| it.is_file()))
        });
        file.expect("its unfinished file").write_all_at(b"vandal", 1 << 20).expect("room");
    }
    let [first, second] = receivers.map(|receiver| receiver.end(LIMIT));
    first.assert_code(0);
    assert_eq!(names_in(&trusting), ["file"], "the digest is of what was received, as the README says");
    second.assert_refusal(5, &["read back from the disk is not what was written"]);
    assert_eq!(shown_in(&checking), [""; 0]);
    root.end(LIMIT).assert_code(1);
}

#[test]
fn what_is_undisturbed_is_read_back_as_it_was_sent() {
    let site = Site::beside("intact", slow(2));
    let bytes = content(2, 3 * MEBIBYTE + 1);
    let (source, dest) = (site.file("source.bin", &bytes), site.path("dest"));
    let receiver = site.start("n1", &[&RECEIVE[..], &["--no-resume", "--verify", "read"]].concat(), &dest);
    site.run("n0", &["send", "-i", "eth0", "-n", "1"], &source).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert!(fs::read(dest).is_ok_and(|file| file == bytes));
    site.run("n1", &["recv", "-i", "eth0", "--verify", "read"], "-").assert_refusal(2, &["stdout", "--verify read"]);
}
