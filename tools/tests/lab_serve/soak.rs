//! Growth of memory and descriptors of a receiver that stays.

use crate::{send, serve};
use ethbcast_tests::lab::{LIMIT, Run, Site, content, one_switch, within};
use nix::sys::signal::Signal;
use std::fs;

/// Number of consecutive sessions; `ETHBCAST_SESSIONS` sets more.
const SESSIONS: usize = 40;
/// Permitted growth of the memory, in KiB.
const DRIFT_KIB: u64 = 1024;

/// Returns the process's private resident memory in KiB, and its open descriptors.
fn taken(run: &Run) -> (u64, usize) {
    let status = fs::read_to_string(format!("/proc/{}/status", run.pid())).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("a line of it");
    let kib = line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number");
    (kib, fs::read_dir(format!("/proc/{}/fd", run.pid())).expect("it runs").count())
}

/// Returns both once nothing is under way.
fn settled(run: &Run) -> (u64, usize) {
    let mut last = taken(run);
    let still = within(LIMIT, || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        let now = taken(run);
        (std::mem::replace(&mut last, now) == now).then_some(now)
    });
    still.expect("it comes to rest")
}

#[test]
fn many_sessions_in_a_row_take_no_more_memory_and_leave_no_descriptor() {
    let site = Site::alone("in_a_row", one_switch(2));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &["--force"], &dir);
    let sessions = std::env::var("ETHBCAST_SESSIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(SESSIONS);
    let files: Vec<_> = (0..4).map(|kind| site.file(&format!("f{kind}"), content(kind, 1000 << (4 * kind)))).collect();
    let (mut first, warm) = ((0, 0), sessions / 4);
    for number in 0..sessions {
        send(&site, "ethbcast", "1", &[], &files[number % files.len()]).end(LIMIT).assert_code(0);
        if number + 1 == warm {
            first = settled(&server);
        }
    }
    let last = settled(&server);
    println!("{sessions} sessions: KiB and descriptors after {warm} {first:?}, in the end {last:?}");
    assert!(last.0 <= first.0 + DRIFT_KIB && last.1 == first.1, "{first:?} after {warm} sessions, {last:?} in the end");
    server.signal(Signal::SIGTERM);
    let ended = server.end(LIMIT);
    ended.assert_code(0);
    assert_eq!(ended.stdout_text().lines().count(), sessions);
}

#[test]
fn twenty_groups_at_once_take_no_more_memory_the_fifth_time_than_the_second() {
    let site = Site::alone("at_once", one_switch(2));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &["--force", "--allow-group", "g[1-20]"], &dir);
    let files: Vec<_> = (1..=20).map(|group| site.file(&format!("f{group}"), content(group, 400_000))).collect();
    let mut taken = Vec::new();
    for _ in 0..6 {
        let runs: Vec<_> = files
            .iter()
            .enumerate()
            .map(|(number, file)| send(&site, &format!("g{}", number + 1), "1", &["--max-wait", "60"], file))
            .collect();
        runs.into_iter().for_each(|run| run.end(LIMIT * 3).assert_code(0));
        taken.push(settled(&server));
    }
    println!("20 groups at once, six times: KiB and descriptors {taken:?}");
    let (second, last) = (taken[1], taken[5]);
    assert!(last.0 <= second.0 + DRIFT_KIB && last.1 == second.1, "{taken:?}");
    server.signal(Signal::SIGTERM);
    server.end(LIMIT).assert_code(0);
}
