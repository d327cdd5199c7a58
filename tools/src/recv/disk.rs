//! DEST as a storage: a file that becomes visible only when all is verified and on disk, or stdout.

use super::dest::Dest;
use super::part_file::{DiskError, PartFile, SettledFile};
use super::unnamed_file::UnnamedFile;
use ethbcast_collectives::session::Outcome;
use ethbcast_collectives::session::live::{Storage, StorageError, is_full};
use nix::libc;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// DEST, being written.
pub struct Disk {
    dest: Dest,
    target: Option<Target>,
    path: Arc<OnceLock<PathBuf>>,
}

enum Target {
    Stdout(io::Stdout),
    File { part: PartFile<UnnamedFile>, path: PathBuf, replace: bool },
    Settled { file: SettledFile<UnnamedFile>, path: PathBuf, replace: bool },
}

impl Disk {
    /// A storage for DEST, and where its file will be when it is visible.
    pub fn new(dest: Dest) -> (Disk, Arc<OnceLock<PathBuf>>) {
        let path = Arc::new(OnceLock::new());
        (Disk { dest, target: None, path: Arc::clone(&path) }, path)
    }
}

impl Storage for Disk {
    fn begin(&mut self, source: &str, size: Option<u64>) -> Result<(), StorageError> {
        let free = self.dest.free_bytes();
        if let Some(size) = size.filter(|&size| size > free) {
            let text = format!("no space: {size} bytes to come, {free} free where DEST is");
            return Err(StorageError::new(Outcome::NoSpace, text));
        }
        let path = self.dest.path(source).map_err(|text| StorageError::new(Outcome::WriteFailed, text))?;
        self.target = Some(match path {
            None => Target::Stdout(io::stdout()),
            Some((path, replace)) => {
                let directory = self.dest.directory().unwrap_or(Path::new("."));
                let file = UnnamedFile::create(directory).map_err(|error| trouble("create a temporary file", error))?;
                Target::File { part: PartFile::new(file).map_err(disk_trouble)?, path, replace }
            }
        });
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        match self.target.as_mut().expect("data comes when the session has begun") {
            Target::Stdout(out) => out.write_all(bytes).map_err(|error| trouble("write to stdout", error)),
            Target::File { part, .. } => part.write_all(bytes).map_err(disk_trouble),
            Target::Settled { .. } => panic!("nothing comes after the end"),
        }
    }

    fn settle(&mut self) -> Result<(), StorageError> {
        self.target = Some(match self.target.take().expect("the end comes when the session has begun") {
            Target::Stdout(mut out) => {
                out.flush().map_err(|error| trouble("write to stdout", error))?;
                Target::Stdout(out)
            }
            Target::File { part, path, replace } => {
                Target::Settled { file: part.settle().map_err(disk_trouble)?, path, replace }
            }
            settled @ Target::Settled { .. } => settled,
        });
        Ok(())
    }

    fn publish(&mut self) -> Result<(), StorageError> {
        if let Some(Target::Settled { file, path, replace }) = self.target.take() {
            let published = file.publish(&path, replace);
            if published.as_ref().err().is_none_or(|failed| failed.in_place) {
                self.path.get_or_init(|| path);
            }
            published.map_err(disk_trouble)?;
        }
        Ok(())
    }
}

/// What went wrong at a file, with what is true of it and what to do.
fn disk_trouble(failed: DiskError) -> StorageError {
    if failed.in_place {
        let help = "; the file is in place and whole, but a crash may take its name away: sync the disk, or send again";
        return StorageError::system(&failed.doing, failed.error, help);
    }
    trouble(&failed.doing, failed.error)
}

fn trouble(doing: &str, error: io::Error) -> StorageError {
    let help = match error.kind() {
        ErrorKind::QuotaExceeded => "; the quota is used up: make room, ask for more, or choose another DEST",
        ErrorKind::FileTooLarge => "; raise the limit (`ulimit -f`), or choose a DEST whose file system takes the size",
        _ if is_full(&error) => "; make room or choose another DEST",
        ErrorKind::AlreadyExists => "; remove it, or replace it with --force",
        ErrorKind::ReadOnlyFilesystem => "; the disk may have failed (see `dmesg`): choose another DEST",
        _ if error.raw_os_error() == Some(libc::EIO) => "; the disk is failing (see `dmesg`): choose another DEST",
        _ => "",
    };
    StorageError::system(doing, error, help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_common_error_of_a_disk_says_what_to_do() {
        for (errno, help) in [
            (libc::ENOSPC, "make room"),
            (libc::EDQUOT, "quota"),
            (libc::EFBIG, "ulimit -f"),
            (libc::EIO, "dmesg"),
            (libc::EROFS, "dmesg"),
            (libc::EEXIST, "--force"),
        ] {
            let error = trouble("write", io::Error::from_raw_os_error(errno));
            assert!(error.to_string().contains(help), "{error}");
        }
    }
}
