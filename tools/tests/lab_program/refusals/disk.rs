use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Run, Site, content, one_switch, shown_in};
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::SmallDisk;
use std::fs;
use std::path::PathBuf;

/// Creates and mounts a file system of 1 MiB.
fn small_disk(site: &Site) -> (SmallDisk, PathBuf) {
    let path = site.directory("disk");
    (SmallDisk::mount(&path, 1 << 20).expect("a tmpfs"), path)
}

#[test]
fn a_file_larger_than_the_free_space_is_refused_before_its_first_byte() {
    let site = Site::beside("small", one_switch(2));
    let (_disk, disk) = small_disk(&site);
    let source = site.file("source.bin", content(1, 4 * MEBIBYTE));
    let receiver = site.start("n1", &["recv", "--once", "-i", "eth0", "--max-wait", "10"], disk.join("file"));
    let root = site.run("n0", &["send", "-n", "1", "-i", "eth0", "--max-wait", "2"], &source);
    receiver.end(LIMIT).assert_refusal(4, &["n1", "room for", "the file has 4.00 MiB", "make room", "[E-SPACE]"]);
    root.assert_refusal(3, &["0 of 1 receivers", "n1", "[E-SPACE]"]);
    assert_eq!(shown_in(&disk), [""; 0]);
}

#[test]
fn a_stream_that_outgrows_the_free_space_fails_there_alone_and_leaves_nothing() {
    let site = Site::beside("outgrow", LabConfig { rate_bits_per_second: Some(400_000_000), ..one_switch(4) });
    let (_disk, disk) = small_disk(&site);
    let bytes = content(2, 4 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    // The last frames of a leaving relay race with the first ones of its replacement, so that
    // several attempts are made.
    for (number, via) in ["chain", "chain", "chain", "chain", "chain", "cast"].into_iter().enumerate() {
        // n2 relays in the chain, so that n3 must be served past it.
        let hosts = ["n1", "n2", "n3"];
        let paths = [site.path(&format!("n1-{number}")), disk.join("file"), site.path(&format!("n3-{number}"))];
        let runs = [0, 1, 2].map(|at| site.start(hosts[at], &["recv", "-i", "eth0", "--max-wait", "10"], &paths[at]));
        let mut send = site.ethbcast("n0", ["send", "-i", "eth0", "-n", "3", "--via", via, "-"]);
        send.stdin(fs::File::open(&source).expect("readable"));
        let root = Run::start("n0", send).end(LIMIT);
        let [first, full, last] = runs.map(|run| run.end(LIMIT));
        full.assert_refusal(4, &["No space", "make room", "[E-SPACE]"]);
        first.assert_code(0);
        last.assert_code(0);
        root.assert_code(1);
        assert!(root.stderr.contains("1 of 3 receivers failed: n2 (no-space)"), "{}", root.stderr);
        assert_eq!(shown_in(&disk), [""; 0]);
        assert!([0, 2].into_iter().all(|at| fs::read(&paths[at]).is_ok_and(|file| file == bytes)), "{via}");
    }
}
