//! Checks by `ethbcast doctor` of the destination: directory, permissions, free space, speed,
//! resource limits.

use super::outside::{PATIENCE, within};
use super::{Fault, Findings, Fix, quoted};
use crate::signals;
use ethbcast_collectives::session::verified::sizes;
use ethbcast_content::dest::{Device, lacking_device};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::sys::statvfs::{Statvfs, statvfs};
use nix::unistd::{AccessFlags, Uid, access};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

/// Free space below which DEST is considered nearly full.
pub const LITTLE_BYTES: u64 = 64 << 20;
/// Files that are created: DEST, the partial file and its journal.
const MIN_FILES: u64 = 3;

pub fn check(dest: &Path, bytes: Option<u64>, findings: &mut Findings) {
    let place = dest.to_owned();
    match within(PATIENCE, move || Place::look(&place)) {
        Some(place) => place.judge(bytes, findings),
        None => {
            let what = format!(
                "the file system of {} does not answer within {PATIENCE:?}",
                dest.display()
            );
            let words = "check its server, if it is a network file system; or choose another DEST";
            findings.add(Fault::Dest, what, Fix::Words(words.to_owned()));
        }
    }
}

struct Place {
    lacking: Option<String>,
    /// Size of a device, or the reason why it cannot be DEST.
    device: Option<Result<u64, String>>,
    dest: PathBuf,
    directory: PathBuf,
    access: nix::Result<()>,
    disk: nix::Result<Statvfs>,
}

impl Place {
    fn look(dest: &Path) -> Place {
        let beside = || {
            dest.parent()
                .filter(|path| !path.as_os_str().is_empty())
                .unwrap_or(Path::new("."))
        };
        let directory = if dest.is_dir() { dest } else { beside() }.to_owned();
        let access = access(&directory, AccessFlags::W_OK | AccessFlags::X_OK);
        let is_device = dest
            .metadata()
            .is_ok_and(|there| there.file_type().is_block_device());
        let device = is_device.then(|| Device::look(dest).map_err(|error| error.to_string()));
        let (lacking, disk) = (lacking_device(dest), statvfs(&directory));
        Place {
            lacking,
            device,
            dest: dest.to_owned(),
            access,
            disk,
            directory,
        }
    }

    fn judge_device(
        &self,
        device: &Result<u64, String>,
        bytes: Option<u64>,
        findings: &mut Findings,
    ) {
        let at = self.dest.display();
        match device {
            Err(what) => findings.add(
                Fault::Dest,
                what.clone(),
                Fix::Words("or choose another DEST".to_owned()),
            ),
            Ok(holds) if bytes.is_some_and(|bytes| bytes > *holds) => {
                let [holds, wanted] = sizes(*holds, bytes.unwrap_or_default());
                let what = format!("{at} holds {holds}, and {wanted} are wanted");
                findings.add(
                    Fault::Space,
                    what,
                    Fix::Words("choose a larger device as DEST".to_owned()),
                );
            }
            Ok(_) => findings.skip(format!(
                "the write speed of {at}: a test would overwrite the data on it"
            )),
        }
    }

    fn judge(&self, bytes: Option<u64>, findings: &mut Findings) {
        if let Some(what) = &self.lacking {
            let words = "name a disk that is here, or a place that is not below /dev";
            return findings.add(Fault::Dest, what.clone(), Fix::Words(words.to_owned()));
        }
        if let Some(device) = &self.device {
            return self.judge_device(device, bytes, findings);
        }
        let (at, word) = (
            self.directory.display(),
            quoted(&self.directory.to_string_lossy()),
        );
        if let Err(errno) = self.access {
            let fix = match errno {
                Errno::ENOENT => Fix::Safe(format!("mkdir -p {word}")),
                Errno::EROFS => {
                    Fix::Command(format!("mount -o remount,rw \"$(stat -c %m {word})\""))
                }
                Errno::EACCES => Fix::Command(format!("chown {} {word}", Uid::effective())),
                _ => Fix::Words("choose another DEST".to_owned()),
            };
            return findings.add(
                Fault::Dest,
                format!("nothing can be written in {at}: {errno}"),
                fix,
            );
        }
        let disk = match self.disk {
            Ok(disk) => disk,
            Err(errno) => return findings.skip(format!("room in {at}: {errno}")),
        };
        let free_bytes = disk.blocks_available() as u64 * disk.fragment_size() as u64;
        let wanted = bytes.unwrap_or(LITTLE_BYTES);
        if free_bytes < wanted {
            let words = format!(
                "make room, the most is in: du -x -d 1 {word} | sort -n; or choose another DEST"
            );
            let [free, wanted] = sizes(free_bytes, wanted);
            let what = format!("{at} has {free} free, and {wanted} are wanted");
            findings.add(Fault::Space, what, Fix::Words(words));
        }
        check_speed(&self.directory, free_bytes, findings);
        // File systems that create inodes on demand report 0 of 0.
        if disk.files() > 0 && (disk.files_available() as u64) < MIN_FILES {
            let words = format!("remove files, most are in: du -x --inodes -d 1 {word} | sort -n");
            findings.add(
                Fault::Space,
                format!("{at} has room for no more files (df -i)"),
                Fix::Words(words),
            );
        }
    }
}

/// Speed below which the disk is slower than Ethernet at 100 Mbit/s.
const SLOW_BYTES_PER_SECOND: f64 = 10e6;
const PIECE_BYTES: usize = 1 << 20;
const MAX_PIECES: u64 = 16;
const LONG_ENOUGH: Duration = Duration::from_secs(1);
const WRITING_LIMIT: Duration = Duration::from_secs(10);

pub fn check_speed(directory: &Path, free_bytes: u64, findings: &mut Findings) {
    let (at, place) = (directory.display(), directory.to_owned());
    // Most of the free space is left to other programs.
    let pieces = MAX_PIECES.min(free_bytes / 4 / PIECE_BYTES as u64);
    if pieces == 0 {
        return findings.skip(format!(
            "the write speed of {at}: there is too little free space for a test"
        ));
    }
    let rate = match within(WRITING_LIMIT, move || measure(&place, pieces)) {
        Some(Ok(rate)) => rate,
        Some(Err(error)) => return findings.skip(format!("the write speed of {at}: {error}")),
        None => 0.0,
    };
    if rate < SLOW_BYTES_PER_SECOND {
        let what = format!(
            "{at} takes {:.1} MB/s with syncs: less than a network of 100 Mbit/s brings",
            rate / 1e6
        );
        let words = "choose a DEST on a faster disk, or in memory (/dev/shm); `iostat -x 1` shows who else writes, \
                     `dmesg` whether the disk fails";
        findings.add(Fault::Disk, what, Fix::Words(words.to_owned()));
    }
}

fn measure(directory: &Path, pieces: u64) -> io::Result<f64> {
    // A limit on the file's size is checked elsewhere, and must not kill the process here.
    signals::block(&[Signal::SIGXFSZ])?;
    let unnamed = OFlag::O_TMPFILE.bits();
    let mut file = OpenOptions::new()
        .write(true)
        .custom_flags(unnamed)
        .mode(0o600)
        .open(directory)?;
    let mut piece = vec![0; PIECE_BYTES];
    let began = Instant::now();
    let mut written = 0;
    for at in 0..pieces {
        // Distinct incompressible data, which a file system can neither deduplicate nor compress.
        blake3::Hasher::new()
            .update(&at.to_le_bytes())
            .finalize_xof()
            .fill(&mut piece);
        file.write_all(&piece)?;
        file.sync_data()?;
        written += PIECE_BYTES;
        if began.elapsed() >= LONG_ENOUGH {
            break;
        }
    }
    Ok(written as f64 / began.elapsed().as_secs_f64())
}

/// Files that a receiver of a directory may have open, with a margin over 17.
const MIN_OPEN_FILES: u64 = 24;

pub fn check_limits(bytes: Option<u64>, findings: &mut Findings) {
    let Ok(text) = fs::read_to_string("/proc/self/limits") else {
        return findings.skip("limits of the process: there is no /proc");
    };
    // ulimit counts files in blocks of 512 bytes or 1 KiB, depending on the shell.
    let wanted = [
        (
            "Max file size",
            bytes.unwrap_or(LITTLE_BYTES),
            "a file may have",
            "bytes",
            "ulimit -S -f unlimited",
        ),
        (
            "Max open files",
            MIN_OPEN_FILES,
            "a process may have open",
            "files",
            "ulimit -S -n 1024",
        ),
    ];
    for (name, least, says, unit, fix) in wanted {
        if let Some(limit) = soft_limit(&text, name).filter(|&limit| limit < least) {
            let what = format!("{says} {limit} {unit}, and {least} are wanted");
            findings.add(Fault::Limit, what, Fix::Command(fix.to_owned()));
        }
    }
}

fn soft_limit(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line[name.len()..].split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trial_writes_leave_nothing_and_do_not_fill_a_full_disk() {
        let directory = tempfile::tempdir().expect("there is room");
        assert!(measure(directory.path(), 2).is_ok_and(|rate| rate > 0.0));
        assert_eq!(
            std::fs::read_dir(directory.path()).expect("ours").count(),
            0
        );
        let mut findings = Findings::default();
        check_speed(directory.path(), 1 << 20, &mut findings);
        assert_eq!(
            (
                findings.count(),
                findings.json(None)["not_checked"].as_array().map(Vec::len)
            ),
            (0, Some(1))
        );
    }

    #[test]
    fn the_soft_limit_counts() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max file size             unlimited            unlimited            bytes     \n\
                    Max open files            1024                 1048576              files     \n";
        assert_eq!(soft_limit(text, "Max open files"), Some(1024));
        assert_eq!(soft_limit(text, "Max file size"), None);
        assert_eq!(soft_limit(text, "Max nothing"), None);
    }
}
