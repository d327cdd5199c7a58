//! DEST as a storage: a file that becomes visible only when all is verified and on disk, or stdout.

use super::dest::{Dest, temporary};
use ethbcast_collectives::session::Outcome;
use ethbcast_collectives::session::live::{Storage, StorageError, is_full};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use tempfile::NamedTempFile;

/// Bytes after which the kernel is asked to start writing, so that the final sync has little left to do.
const SYNC_BYTES: u64 = 8 << 20;

/// DEST, being written.
pub struct Disk {
    dest: Dest,
    target: Option<Target>,
    path: Arc<OnceLock<PathBuf>>,
}

enum Target {
    Stdout(io::Stdout),
    File { temporary: NamedTempFile, path: PathBuf, replace: bool, unsynced: u64, syncer: SyncSender<()> },
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
                let syncer = start_syncer(temporary.as_file()).map_err(|error| trouble("start syncing", error))?;
                Target::File { temporary, path, replace, unsynced: 0, syncer }
            }
        });
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        match self.target.as_mut().expect("data comes when the session has begun") {
            Target::Stdout(out) => out.write_all(bytes).map_err(|error| trouble("write to stdout", error)),
            Target::File { temporary, unsynced, syncer, .. } => {
                temporary.as_file_mut().write_all(bytes).map_err(|error| trouble("write", error))?;
                *unsynced += bytes.len() as u64;
                // A syncer that is still busy with the last round will be told next time.
                if *unsynced >= SYNC_BYTES && syncer.try_send(()).is_ok() {
                    *unsynced = 0;
                }
                Ok(())
            }
        }
    }

    fn commit(&mut self) -> Result<(), StorageError> {
        match self.target.take().expect("the end comes when the session has begun") {
            Target::Stdout(mut out) => out.flush().map_err(|error| trouble("write to stdout", error)),
            Target::File { temporary, path, replace, .. } => {
                publish(temporary, &path, replace)?;
                self.path.get_or_init(|| path);
                Ok(())
            }
        }
    }
}

/// Syncs the file and gives it its name, in this order.
fn publish(temporary: NamedTempFile, path: &Path, replace: bool) -> Result<(), StorageError> {
    temporary.as_file().sync_all().map_err(|error| trouble("sync", error))?;
    let result = if replace { temporary.persist(path) } else { temporary.persist_noclobber(path) };
    result.map_err(|error| trouble(&format!("rename to {}", path.display()), error.error))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| trouble("sync the directory", error))
}

/// A thread that syncs what has been written so far whenever it is told to.
fn start_syncer(file: &File) -> std::io::Result<SyncSender<()>> {
    let file = file.try_clone()?;
    let (syncer, told) = sync_channel::<()>(1);
    std::thread::Builder::new().name("sync".to_owned()).spawn(move || {
        while told.recv().is_ok() {
            // The final sync reports errors: the kernel remembers them for this open file.
            if let Err(error) = file.sync_data() {
                log::warn!("syncing early failed: {error}");
                return;
            }
        }
    })?;
    Ok(syncer)
}

fn trouble(doing: &str, error: io::Error) -> StorageError {
    let help = match error.kind() {
        _ if is_full(&error) => "; make room or choose another DEST",
        ErrorKind::AlreadyExists => "; remove it, or replace it with --force",
        _ => "",
    };
    StorageError::system(doing, error, help)
}
