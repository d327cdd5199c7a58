//! Check of the disk's speed below DEST: a receiver slower than the network delays all others.

use super::outside::within;
use super::{Fault, Findings, Fix};
use crate::signals;
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Speed below which the disk is slower than Ethernet at 100 Mbit/s.
const SLOW_BYTES_PER_SECOND: f64 = 10e6;
/// Size of a synced write, and the limit on their number.
const PIECE_BYTES: usize = 1 << 20;
const MAX_PIECES: u64 = 16;
/// Duration after which the measurement is precise enough.
const LONG_ENOUGH: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes to a nameless file in a directory with `free_bytes`.
pub fn check(directory: &Path, free_bytes: u64, findings: &mut Findings) {
    let (at, place) = (directory.display(), directory.to_owned());
    // Most of the free space is left to others.
    let pieces = MAX_PIECES.min(free_bytes / 4 / PIECE_BYTES as u64);
    if pieces == 0 {
        return findings.skip(format!("how fast {at} takes what is written: there is too little room to try"));
    }
    let rate = match within(PATIENCE, move || measure(&place, pieces)) {
        Some(Ok(rate)) => rate,
        Some(Err(error)) => return findings.skip(format!("how fast {at} takes what is written: {error}")),
        None => 0.0,
    };
    if rate < SLOW_BYTES_PER_SECOND {
        let what = format!("{at} takes {:.1} MB/s with syncs: less than a network of 100 Mbit/s brings", rate / 1e6);
        let words = "choose a DEST on a faster disk, or in memory (/dev/shm); `iostat -x 1` shows who else writes, \
                     `dmesg` whether the disk fails";
        findings.add(Fault::Disk, what, Fix::Words(words.to_owned()));
    }
}

fn measure(directory: &Path, pieces: u64) -> io::Result<f64> {
    // A limit on the file's size is checked elsewhere, and must not kill the process here.
    signals::block(&[Signal::SIGXFSZ])?;
    let unnamed = OFlag::O_TMPFILE.bits();
    let mut file = OpenOptions::new().write(true).custom_flags(unnamed).mode(0o600).open(directory)?;
    let mut piece = vec![0; PIECE_BYTES];
    let began = Instant::now();
    let mut written = 0;
    for at in 0..pieces {
        // Distinct incompressible data, which a file system can neither deduplicate nor compress.
        blake3::Hasher::new().update(&at.to_le_bytes()).finalize_xof().fill(&mut piece);
        file.write_all(&piece)?;
        file.sync_data()?;
        written += PIECE_BYTES;
        if began.elapsed() >= LONG_ENOUGH {
            break;
        }
    }
    Ok(written as f64 / began.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tried_leaves_nothing_and_a_full_disk_is_not_filled() {
        let directory = tempfile::tempdir().expect("there is room");
        assert!(measure(directory.path(), 2).is_ok_and(|rate| rate > 0.0));
        assert_eq!(std::fs::read_dir(directory.path()).expect("ours").count(), 0);
        let mut findings = Findings::default();
        check(directory.path(), 1 << 20, &mut findings);
        assert_eq!((findings.count(), findings.json(None)["not_checked"].as_array().map(Vec::len)), (0, Some(1)));
    }
}
