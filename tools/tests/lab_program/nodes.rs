//! Several processes of a communicator on each host, killed and restarted: none hangs, and all name
//! the dead one.

use crate::harness::{Ethbcast, LIMIT, Run, Site, one_switch, within};
use nix::sys::signal::Signal;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

const RANKS: usize = 6;

/// Starts ranks on each of two hosts in this order; the first is the root.
fn start(site: &Site, size: &str, iterations: &str) -> Vec<Run> {
    let root = ["perf", "-i", "eth0", "-n", "6", "--max-wait", "20", "--root", "--json", "--no-probe"];
    let root = Run::start("n0", site.ethbcast("n0", root.iter().chain(&["--sizes", size, "--iterations", iterations])));
    within(LIMIT, || (files(site, "n0") == 1).then_some(())).expect("the root is there");
    let others = ["n0", "n0", "n1", "n1", "n1"]
        .map(|host| Run::start(host, site.ethbcast(host, ["perf", "-i", "eth0", "-n", "6", "--max-wait", "20"])));
    std::iter::once(root).chain(others).collect()
}

/// Returns the number of files that the ranks of a host share.
fn files(site: &Site, host: &str) -> usize {
    let read = || std::fs::metadata("/proc/thread-self/ns/net").expect("a namespace").ino();
    let prefix = format!("ethbcast-{:x}-", site.lab().run_on(host, read).expect("a host"));
    let files = std::fs::read_dir("/dev/shm").expect("it is there").flatten();
    files.filter(|file| file.file_name().to_string_lossy().starts_with(&prefix)).count()
}

#[test]
fn six_ranks_on_two_hosts_measure_and_leave_nothing_behind() {
    let site = Site::beside("nodesperf", one_switch(2));
    let mut ranks = start(&site, "256,64K", "20");
    let root = ranks.remove(0).end(LIMIT);
    root.assert_code(0);
    assert_eq!(root.json()["ranks"], RANKS, "{}", root.stdout_text());
    ranks.into_iter().for_each(|rank| rank.end(LIMIT).assert_code(0));
    assert_eq!((files(&site, "n0"), files(&site, "n1")), (0, 0));
}

#[test]
fn a_rank_that_is_killed_whichever_and_whenever_is_named_by_all_others_and_nobody_hangs() {
    let site = Site::beside("nodeskill", one_switch(2));
    // The root, which receives for its host; a rank that receives for the other host, or does not;
    // at any moment.
    for (killed, host, pause_ms) in [(0, "n0", 0), (1, "n0", 3), (3, "n1", 1), (4, "n1", 2), (5, "n1", 7), (3, "n1", 0)]
    {
        let received = || site.lab().counters("n1").expect("a host").received_frames;
        let before = received();
        let mut ranks = start(&site, "64K", "1000000");
        within(LIMIT, || (received() - before > 3000).then_some(())).expect("they broadcast");
        std::thread::sleep(Duration::from_millis(pause_ms));
        let dead = ranks.remove(killed);
        dead.signal(Signal::SIGKILL);
        dead.end(LIMIT).assert_code(137);
        for rank in ranks {
            rank.end(LIMIT).assert_refusal(1, &[&format!("({host})"), "silent"]);
        }
        assert_eq!((files(&site, "n0"), files(&site, "n1")), (0, 0), "the last of each host removes what was shared");
    }
}

#[test]
fn what_ranks_that_were_all_killed_have_left_does_not_hinder_the_next() {
    let site = Site::beside("nodescrash", one_switch(2));
    let ranks = start(&site, "256", "1000000");
    within(LIMIT, || (site.lab().counters("n1").expect("a host").received_frames > 1000).then_some(()))
        .expect("running");
    ranks.iter().for_each(|rank| rank.signal(Signal::SIGKILL));
    ranks.into_iter().for_each(|rank| rank.end(LIMIT).assert_code(137));
    assert_eq!((files(&site, "n0"), files(&site, "n1")), (1, 1), "nobody could remove it");
    let ranks = start(&site, "256", "10");
    ranks.into_iter().for_each(|rank| rank.end(LIMIT).assert_code(0));
    assert_eq!((files(&site, "n0"), files(&site, "n1")), (0, 0));
}
