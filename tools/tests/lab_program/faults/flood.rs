//! Ten thousands of join requests from hosts that do not exist: they take no place and little
//! memory.

use super::vandal::Vandal;
use super::{slow, twelve_mebibytes};
use crate::harness::{LIMIT, MEBIBYTE, Run, Site};
use ethbcast_tests::lab::StopOnDrop;
use std::fs;
use std::sync::atomic::AtomicBool;
use std::thread;

const GHOSTS: u32 = 10_000;
/// Permitted growth of the root's memory meanwhile, including its buffers for the session.
const MAX_GROWTH_BYTES: usize = 64 * MEBIBYTE;

/// Returns a field of a process's status in bytes.
fn memory_bytes(run: &Run, field: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", run.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kibibytes.expect("the kernel says so") * 1024
}

#[test]
fn ten_thousand_forged_requests_to_join_cost_little_memory_and_nobody_its_place() {
    let site = Site::beside("flood", slow(5));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let vandal = scope.spawn(|| site.lab().run_on("n4", || Vandal::new().ask(GHOSTS, &stop)));
        let _stopper = StopOnDrop(&stop);
        let session = twelve_mebibytes(&site, "chain").receivers(&["n1", "n2", "n3"]).start();
        session.wait_for_sent(1);
        let before = memory_bytes(&session.root, "VmRSS");
        vandal.join().expect("no panic").expect("a host");
        session.wait_for_sent(4 * MEBIBYTE as u64);
        let most = memory_bytes(&session.root, "VmHWM");
        session.end(LIMIT).assert_verified();
        let growth = most.saturating_sub(before);
        assert!(growth <= MAX_GROWTH_BYTES, "from {before} to {most} bytes");
    });
}
