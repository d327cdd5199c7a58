//! DEST: what cannot be written, and what may be.

use super::nobody::Nobody;
use crate::harness::{Ethbcast, LIMIT, Site, names_in, one_switch};
use std::fs;

#[test]
fn a_dest_that_cannot_be_written_is_refused_at_once() {
    let site = Site::beside("dest", one_switch(2));
    let existing = site.file("existing", "old");
    site.run("n1", &["recv", "-i", "eth0"], &existing)
        .assert_refusal(4, &["existing", "exists", "--force", "[E-DEST]"]);
    assert_eq!(fs::read(&existing).expect("still there"), b"old");
    let nowhere = site.path("no/such/file");
    site.run("n1", &["recv", "-i", "eth0"], &nowhere).assert_refusal(4, &["no/such", "does not exist", "mkdir -p"]);
    let closed = site.directory("closed");
    let refused =
        Nobody::new().start(&site, "n1", "-all,+net_raw", &["recv", "-i", "eth0"], closed.join("file")).end(LIMIT);
    refused.assert_refusal(4, &["cannot write", "closed", "another DEST"]);
    assert_eq!(names_in(&closed), [""; 0]);
}

#[test]
fn force_replaces_dest_and_a_directory_takes_the_file_under_its_own_name() {
    let site = Site::beside("force", one_switch(3));
    let source = site.file("source.txt", "new");
    let (existing, directory) = (site.file("existing", "old and longer"), site.directory("directory"));
    let receivers = [
        site.start("n1", &["recv", "-i", "eth0", "--force", "--max-wait", "10"], &existing),
        site.start("n2", &["recv", "-i", "eth0", "--max-wait", "10"], &directory),
    ];
    site.run("n0", &["send", "-i", "eth0", "-n", "2"], &source).assert_code(0);
    receivers.into_iter().for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    assert_eq!(fs::read(&existing).expect("replaced"), b"new");
    assert_eq!(names_in(&directory), ["source.txt"]);
    // A second time the directory holds a file of that name, which only the invitation tells.
    fs::write(&source, "newer").expect("written");
    let receiver = site.start("n2", &["recv", "-i", "eth0", "--max-wait", "10"], &directory);
    let root = site.run("n0", &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"], &source);
    receiver.end(LIMIT).assert_refusal(4, &["source.txt", "exists", "--force"]);
    root.assert_code(1);
    assert_eq!(names_in(&directory), ["source.txt"]);
    assert_eq!(fs::read(directory.join("source.txt")).expect("still there"), b"new");
}

#[test]
fn a_dest_that_can_never_be_a_file_is_refused_before_the_first_byte() {
    let site = Site::beside("nofile", one_switch(2));
    let long = site.path(&"n".repeat(256));
    site.run("n1", &["recv", "-i", "eth0", "--max-wait", "1"], &long).assert_refusal(4, &["nnn", "too long"]);
    let slash = site.path("new/");
    site.run("n1", &["recv", "-i", "eth0", "--max-wait", "1"], &slash).assert_refusal(4, &["new/", "directory"]);
}
