//! DEST: is its directory there, may this user write to it, is there room?

use super::{Fault, Findings, Fix, quoted};
use nix::errno::Errno;
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};
use std::path::Path;

/// Less than this is little for anything that is worth sending to all.
pub const LITTLE_BYTES: u64 = 64 << 20;
/// DEST, what is written beside it, and its journal.
const LEAST_FILES: u64 = 3;

/// Looks at where `bytes` bytes are to go.
pub fn check(dest: &Path, bytes: Option<u64>, findings: &mut Findings) {
    let beside = || dest.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = if dest.is_dir() { dest } else { beside() };
    let (at, word) = (directory.display(), quoted(&directory.to_string_lossy()));
    if let Err(errno) = access(directory, AccessFlags::W_OK | AccessFlags::X_OK) {
        let fix = match errno {
            Errno::ENOENT => Fix::Safe(format!("mkdir -p {word}")),
            Errno::EROFS => Fix::Command(format!("mount -o remount,rw \"$(stat -c %m {word})\"")),
            Errno::EACCES => Fix::Command(format!("chown {} {word}", nix::unistd::Uid::effective())),
            _ => Fix::Words("choose another DEST".to_owned()),
        };
        return findings.add(Fault::Dest, format!("nothing can be written in {at}: {errno}"), fix);
    }
    let disk = match statvfs(directory) {
        Ok(disk) => disk,
        Err(errno) => return findings.skip(format!("room in {at}: {errno}")),
    };
    let free_bytes = disk.blocks_available() as u64 * disk.fragment_size() as u64;
    let wanted = bytes.unwrap_or(LITTLE_BYTES);
    if free_bytes < wanted {
        let fix = Fix::Words(format!("make room, the most is in: du -x -d 1 {word} | sort -n; or choose another DEST"));
        findings.add(Fault::Space, format!("{at} has {free_bytes} bytes free, and {wanted} are wanted"), fix);
    }
    // File systems that make inodes as they need them say 0 of 0.
    if disk.files() > 0 && (disk.files_available() as u64) < LEAST_FILES {
        let fix = Fix::Words(format!("remove files, most are in: du -x --inodes -d 1 {word} | sort -n"));
        findings.add(Fault::Space, format!("{at} has room for no more files, however short (df -i)"), fix);
    }
}
