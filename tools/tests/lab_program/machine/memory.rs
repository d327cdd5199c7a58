//! Memory use of a transfer, which must not depend on its size.

use super::one_switch;
use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Run, Site, content};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Limit on the memory at either end, in KiB.
const MAX_KIB: u64 = 64 << 10;
/// Permitted growth from a short to a long transfer, in KiB: memory that the allocator keeps, and
/// data waiting for a slow disk (38 to 40 MiB on a quiet machine, up to 54 beside other tests).
const DRIFT_KIB: u64 = 20 << 10;

/// Returns a shell command that records the peak memory of the program, which is the shell's
/// parent.
fn note(path: &Path) -> String {
    format!("grep VmHWM /proc/$PPID/status > {}", path.display())
}

/// Reads the recorded peak, in KiB.
fn noted(path: &Path) -> u64 {
    let text = fs::read_to_string(path).expect("it was noted");
    text.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("VmHWM: number kB")
}

/// Returns the peaks of sender and receiver for a transfer, in KiB.
fn peaks(site: &Site, source: &[&str], dest: &[&str]) -> [u64; 2] {
    let notes = [site.path("root"), site.path("receiver")];
    let receive = ["recv", "-i", "eth0", "--max-wait", "20", "--exec", &note(&notes[1])];
    let receiver = Run::start("n1", site.ethbcast("n1", [&receive, dest].concat()));
    let send = ["send", "-i", "eth0", "-n", "1", "--max-wait", "20", "--exec-after", &note(&notes[0])];
    Run::start("n0", site.ethbcast("n0", [&send, source].concat())).end(LIMIT * 4).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    notes.map(|note| noted(&note))
}

#[test]
fn a_long_transfer_takes_no_more_memory_than_a_short_one_and_none_takes_more_than_64_mib() {
    let site = Site::alone("memory", one_switch(2));
    let short = site.file("short", content(1, MEBIBYTE));
    let dest = site.path("dest");
    let [short, dest] = [&short, &dest].map(|path| path.to_str().expect("UTF-8"));
    let first = peaks(&site, &[short], &["--force", dest]);
    // A sparse file of a tebibyte, whose offsets are those of a full one.
    let large = site.path("large");
    let file = fs::File::create(&large).and_then(|file| file.set_len(1 << 40).map(|()| file)).expect("holes");
    for at in 0..2000 {
        file.write_all_at(&content(at, 20_000), (at << 29) + 12_345).expect("room");
    }
    let sparse = peaks(&site, &[large.to_str().expect("UTF-8")], &["--force", dest]);
    let generated = peaks(&site, &["--pipe", "head -c 768M /dev/zero"], &["--pipe", "cat > /dev/null"]);
    println!("KiB at root and receiver: 1 MiB {first:?}, 1 TiB with holes {sparse:?}, 768 MiB {generated:?}");
    for (peak, first) in [sparse, generated].into_iter().flat_map(|peaks| peaks.into_iter().zip(first)) {
        assert!(peak <= MAX_KIB, "{peak} KiB");
        assert!(peak <= first.max(40 << 10) + DRIFT_KIB, "{peak} KiB, {first} for 1 MiB");
    }
}
