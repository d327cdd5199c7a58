//! How fast the disk below DEST takes what is to stay: who is slower than the network holds up all others.

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

/// Slower than Ethernet of 100 Mbit/s is slower than any cluster's.
const SLOW_BYTES_PER_SECOND: f64 = 10e6;
/// So much is written and synced at a time, and no more than so much in all.
const PIECE_BYTES: usize = 1 << 20;
const MOST_PIECES: u64 = 16;
/// What more time would say is known by then.
const LONG_ENOUGH: Duration = Duration::from_secs(1);
/// A disk that has not taken the first piece by then is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes to a file without a name in this directory, which has room for so many bytes.
pub fn check(directory: &Path, free_bytes: u64, findings: &mut Findings) {
    let (at, place) = (directory.display(), directory.to_owned());
    // What others need is not taken.
    let pieces = MOST_PIECES.min(free_bytes / 4 / PIECE_BYTES as u64);
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

/// Bytes per second that are on the disk.
fn measure(directory: &Path, pieces: u64) -> io::Result<f64> {
    // A limit on files is found elsewhere, and is no reason to die here.
    signals::block(&[Signal::SIGXFSZ])?;
    let unnamed = OFlag::O_TMPFILE.bits();
    let mut file = OpenOptions::new().write(true).custom_flags(unnamed).mode(0o600).open(directory)?;
    let mut piece = vec![0; PIECE_BYTES];
    let began = Instant::now();
    let mut written = 0;
    for at in 0..pieces {
        // No file system finds two alike, or one that shrinks.
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
