//! DEST that cannot be written, and DEST that can.

use super::nobody::Nobody;
use crate::harness::{Ethbcast, LIMIT, Site, names_in, one_switch};
use ethbcast_tests::lab::SmallDisk;
use std::fs;
use std::path::Path;

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
    // The second time the directory has a file of that name, which is known from the invitation
    // only.
    fs::write(&source, "newer").expect("written");
    let receiver = site.start("n2", &["recv", "-i", "eth0", "--max-wait", "10"], &directory);
    let root = site.run("n0", &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"], &source);
    receiver.end(LIMIT).assert_refusal(4, &["source.txt", "exists", "--force"]);
    root.assert_code(1);
    // The same again would end in the same way: what works is named.
    for word in ["n2 (refused); n2 says: DEST", "exists", "--force", "start `recv` there again, then send again to it"]
    {
        assert!(root.stderr.contains(word), "{word}: {}", root.stderr);
    }
    assert!(!root.stderr.contains("write-failed"), "{}", root.stderr);
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

/// Creates a directory of two files, whose contents are sent.
fn tree(site: &Site) -> String {
    let tree = site.directory("tree");
    fs::create_dir(tree.join("sub")).expect("room");
    for (name, text) in [("file", "new"), ("sub/file", "new too")] {
        fs::write(tree.join(name), text).expect("room");
    }
    format!("{}/", tree.display())
}

/// Fails unless a receiver with these options is refused with these words.
fn refused(site: &Site, source: &str, options: &[&str], dest: &Path, words: &[&str]) {
    let options = [&["recv", "--once", "-i", "eth0", "--max-wait", "10"], options].concat();
    let receiver = site.start("n1", &options, format!("{}/", dest.display()));
    let root = site.run("n0", &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"], source);
    receiver.end(LIMIT).assert_refusal(4, &[words, &["nothing was changed", "[E-DEST]"]].concat());
    root.assert_code(1);
}

#[test]
fn what_is_mounted_below_dest_is_never_removed_nor_moved() {
    let site = Site::beside("mounts", one_switch(2));
    let (source, dest, mount) = (tree(&site), site.directory("dest"), site.directory("dest/mnt"));
    fs::write(dest.join("old"), "old").expect("room");
    let disk = SmallDisk::mount(&mount, 1 << 20).expect("a tmpfs");
    fs::write(mount.join("precious"), "precious").expect("room");
    refused(&site, &source, &["--force"], &dest, &["mounted at", "dest/mnt", "umount", "--in-place"]);
    refused(&site, &source, &["--in-place", "--delete"], &dest, &["mounted at", "dest/mnt", "--delete"]);
    assert_eq!(names_in(&dest), ["mnt", "old"]);
    assert_eq!(fs::read(mount.join("precious")).expect("still there"), b"precious");
    // A mount point cannot be renamed, empty or not.
    refused(&site, &source, &["--force"], &mount, &["is a mount point", "--in-place"]);
    fs::remove_file(mount.join("precious")).expect("ours");
    refused(&site, &source, &[], &mount, &["is a mount point", "--in-place"]);
    // With --in-place the data is stored beside the mount.
    fs::write(mount.join("precious"), "precious").expect("room");
    let receiver = site.start("n1", &["recv", "--once", "-i", "eth0", "--max-wait", "10", "--in-place"], &dest);
    site.run("n0", &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"], &source).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(names_in(&dest), ["file", "mnt", "old", "sub"]);
    assert_eq!(fs::read(mount.join("precious")).expect("still there"), b"precious");
    // Only the mount itself prevents the replacement of its directory.
    drop(disk);
    let receiver = site.start("n1", &["recv", "--once", "-i", "eth0", "--max-wait", "10", "--force"], &dest);
    site.run("n0", &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"], &source).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(names_in(&dest), ["file", "sub"]);
}

#[test]
fn a_device_that_is_not_there_does_not_become_a_file() {
    let site = Site::beside("nodevice", one_switch(2));
    for path in ["/dev/ethbcast-none", "/dev/../dev/ethbcast-none", "/dev/ethbcast-none/x"] {
        let words = ["no device", "in memory", "nothing was written", "[E-DEST]"];
        site.run("n1", &["recv", "--once", "-i", "eth0", "--force"], path).assert_refusal(4, &words);
        site.run("n1", &["recv", "-i", "eth0", "--serve", "--force"], path).assert_refusal(4, &words);
        let looked = site.run("n1", &["doctor", "-i", "eth0", "--dest"], path);
        let said = String::from_utf8_lossy(&looked.stdout);
        assert!(said.contains("E-DEST") && said.contains("in memory"), "{said}");
    }
    let link = site.path("disk");
    std::os::unix::fs::symlink("/dev/ethbcast-none", &link).expect("room");
    site.run("n1", &["recv", "-i", "eth0", "--force"], &link).assert_refusal(4, &["no device", "in memory"]);
    for options in [&["recv", "-i", "eth0"][..], &["recv", "-i", "eth0", "--serve"]] {
        site.run("n1", options, "/dev").assert_refusal(4, &["directory of devices", "in memory", "[E-DEST]"]);
    }
    assert!(!Path::new("/dev/ethbcast-none").exists() && link.is_symlink());
}
