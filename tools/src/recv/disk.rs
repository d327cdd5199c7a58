//! DEST as a storage: a file that becomes visible only when all is verified and on disk, or stdout.

use super::dest::{Dest, temporary};
use super::part_file::{DiskError, PartFile, SettledFile};
use ethbcast_collectives::session::Outcome;
use ethbcast_collectives::session::live::{Storage, StorageError, is_full};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tempfile::NamedTempFile;

/// DEST, being written.
pub struct Disk {
    dest: Dest,
    target: Option<Target>,
    path: Arc<OnceLock<PathBuf>>,
}

enum Target {
    Stdout(io::Stdout),
    File { part: PartFile<NamedTempFile>, path: PathBuf, replace: bool },
    Settled { file: SettledFile<NamedTempFile>, path: PathBuf, replace: bool },
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
                let temporary = temporary(directory).map_err(|error| trouble("create a temporary file", error))?;
                Target::File { part: PartFile::new(temporary).map_err(disk_trouble)?, path, replace }
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
            publish(file, &path, replace)?;
            self.path.get_or_init(|| path);
        }
        Ok(())
    }
}

/// Makes the file visible, and the directory remember it.
fn publish(file: SettledFile<NamedTempFile>, path: &Path, replace: bool) -> Result<(), StorageError> {
    file.publish(path, replace).map_err(disk_trouble)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| trouble("sync the directory", error))
}

fn disk_trouble(failed: DiskError) -> StorageError {
    trouble(&failed.doing, failed.error)
}

fn trouble(doing: &str, error: io::Error) -> StorageError {
    let help = match error.kind() {
        _ if is_full(&error) => "; make room or choose another DEST",
        ErrorKind::AlreadyExists => "; remove it, or replace it with --force",
        _ => "",
    };
    StorageError::system(doing, error, help)
}
