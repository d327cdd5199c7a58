//! Check of DEST: its directory, permissions, free space and speed.

use super::outside::{PATIENCE, within};
use super::{Fault, Findings, Fix, disk, quoted};
use ethbcast_content::dest::{Device, lacking_device};
use nix::errno::Errno;
use nix::sys::statvfs::{Statvfs, statvfs};
use nix::unistd::{AccessFlags, Uid, access};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Free space below which DEST is considered nearly full.
pub const LITTLE_BYTES: u64 = 64 << 20;
/// Files that are created: DEST, the partial file and its journal.
const MIN_FILES: u64 = 3;

pub fn check(dest: &Path, bytes: Option<u64>, findings: &mut Findings) {
    let place = dest.to_owned();
    match within(PATIENCE, move || Place::look(&place)) {
        Some(place) => place.judge(bytes, findings),
        None => {
            let what = format!("the file system of {} does not answer within {PATIENCE:?}", dest.display());
            let words = "see to its server, if it is of a network; or choose another DEST";
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
        let beside = || dest.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = if dest.is_dir() { dest } else { beside() }.to_owned();
        let access = access(&directory, AccessFlags::W_OK | AccessFlags::X_OK);
        let is_device = dest.metadata().is_ok_and(|there| there.file_type().is_block_device());
        let device = is_device.then(|| Device::look(dest).map_err(|error| error.to_string()));
        let (lacking, disk) = (lacking_device(dest), statvfs(&directory));
        Place { lacking, device, dest: dest.to_owned(), access, disk, directory }
    }

    /// Judges a device, which has a size, and neither files nor a directory.
    fn judge_device(&self, device: &Result<u64, String>, bytes: Option<u64>, findings: &mut Findings) {
        let at = self.dest.display();
        match device {
            Err(what) => findings.add(Fault::Dest, what.clone(), Fix::Words("or choose another DEST".to_owned())),
            Ok(holds) if bytes.is_some_and(|bytes| bytes > *holds) => {
                let what = format!("{at} holds {holds} bytes, and {} are wanted", bytes.unwrap_or_default());
                findings.add(Fault::Space, what, Fix::Words("choose a larger device as DEST".to_owned()));
            }
            Ok(_) => findings.skip(format!("how fast {at} takes what is written: what is on it would be lost")),
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
        let (at, word) = (self.directory.display(), quoted(&self.directory.to_string_lossy()));
        if let Err(errno) = self.access {
            let fix = match errno {
                Errno::ENOENT => Fix::Safe(format!("mkdir -p {word}")),
                Errno::EROFS => Fix::Command(format!("mount -o remount,rw \"$(stat -c %m {word})\"")),
                Errno::EACCES => Fix::Command(format!("chown {} {word}", Uid::effective())),
                _ => Fix::Words("choose another DEST".to_owned()),
            };
            return findings.add(Fault::Dest, format!("nothing can be written in {at}: {errno}"), fix);
        }
        let disk = match self.disk {
            Ok(disk) => disk,
            Err(errno) => return findings.skip(format!("room in {at}: {errno}")),
        };
        let free_bytes = disk.blocks_available() as u64 * disk.fragment_size() as u64;
        let wanted = bytes.unwrap_or(LITTLE_BYTES);
        if free_bytes < wanted {
            let words = format!("make room, the most is in: du -x -d 1 {word} | sort -n; or choose another DEST");
            let what = format!("{at} has {free_bytes} bytes free, and {wanted} are wanted");
            findings.add(Fault::Space, what, Fix::Words(words));
        }
        disk::check(&self.directory, free_bytes, findings);
        // File systems that create inodes on demand report 0 of 0.
        if disk.files() > 0 && (disk.files_available() as u64) < MIN_FILES {
            let words = format!("remove files, most are in: du -x --inodes -d 1 {word} | sort -n");
            findings.add(Fault::Space, format!("{at} has room for no more files (df -i)"), Fix::Words(words));
        }
    }
}
