//! A disk that runs out of space during write-back, and has space again before the last sync.

use crate::harness::Ethbcast;
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::{LIMIT, SharedDirectory, Site, ThinDisk, content, one_switch, shown_in, within};
use std::fs;

#[test]
fn a_write_back_error_that_an_early_sync_was_told_of_fails_the_receiver_though_the_last_sync_succeeds() {
    const MEBIBYTE: usize = 1 << 20;
    // Slow enough for syncs in the middle: 48 MiB take 2.5 s.
    let site = Site::beside("writeback", LabConfig { rate_bits_per_second: Some(160_000_000), ..one_switch(3) });
    let _shared = SharedDirectory::make(&site.directory("disks")).expect("a bind mount");
    let disk = ThinDisk::make(&site.directory("disks/store"), &site.directory("disks/thin"), 20).expect("a disk");
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
    within(LIMIT, || (disk.has_lost_blocks() || is_given_up()).then_some(())).expect("its store is too small");
    let lost_at = written();
    within(LIMIT, || (written() > lost_at + (10 << 20) || is_given_up()).then_some(()))
        .expect("an early sync comes each 8 MiB");
    disk.grow().expect("room");
    let [broken_run, sound_run] = receivers.map(|run| run.end(LIMIT));
    broken_run.assert_refusal(4, &["cannot sync"]);
    sound_run.assert_code(0);
    root.end(LIMIT).assert_code(1);
    disk.reread().expect("mounted anew");
    assert_eq!(shown_in(disk.mount()), ["lost+found"], "nothing is shown that may lack blocks");
    assert!(fs::read(&sound).is_ok_and(|file| file == bytes));
}
