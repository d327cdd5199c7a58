//! A file that becomes visible only when every byte of it is known to be on the disk.
//!
//! A write-back error is reported once to each open file description (fsync(2)): after a failed sync the kernel calls
//! the lost pages clean, and the next sync of the same file succeeds. So the first failed sync decides, whoever made
//! it: nothing that a later call says is believed, and the file never becomes visible.

use crate::syncer::Syncer;
use ethbcast_collectives::session::FileAttributes;
use std::io::{Error, Result};
use std::path::Path;

/// Bytes after which the kernel is asked to start writing, so that the final sync has little left to do.
pub(super) const SYNC_BYTES: u64 = 8 << 20;

/// A file that is written from its first byte to its last and then gets its name.
pub trait WrittenFile {
    /// Writes the next bytes.
    ///
    /// # Errors
    /// The system's.
    fn write_all(&mut self, bytes: &[u8]) -> Result<()>;

    /// The next bytes are there already.
    ///
    /// # Errors
    /// The system's.
    fn keep(&mut self, bytes: u64) -> Result<()>;

    /// Leaves a hole of so many bytes behind what is there.
    ///
    /// # Errors
    /// The system's.
    fn skip(&mut self, bytes: u64) -> Result<()>;

    /// Keeps beside the file where its bytes belong, for whoever takes up what is left of it; written with the next
    /// sync.
    fn keep_prologue(&mut self, _bytes: &[u8]) {}

    /// Another handle of the same open file, only to sync it from another thread.
    ///
    /// # Errors
    /// The system's.
    fn syncing_handle(&self) -> Result<impl FnMut() -> Result<()> + Send + 'static>;

    /// Ends the file where the last byte is, gives it its attributes, if it has any, and waits until all of that is on
    /// the disk.
    ///
    /// # Errors
    /// The system's.
    fn end(&mut self, attributes: Option<FileAttributes>) -> Result<()>;

    /// Hands over all that the disk has of it, not what memory keeps.
    ///
    /// # Errors
    /// The system's.
    fn read_back(&mut self, take: impl FnMut(&[u8])) -> Result<()>;

    /// Gives the file its name; what has that name already is replaced only if `replace`.
    ///
    /// # Errors
    /// The system's.
    fn name(&mut self, path: &Path, replace: bool) -> Result<()>;

    /// Waits until the name is on the disk, too.
    ///
    /// # Errors
    /// The system's.
    fn sync_name(&mut self, path: &Path) -> Result<()>;
}

/// What went wrong, and at what.
#[derive(Debug)]
pub struct DiskError {
    /// What was being done, to be read after "cannot".
    pub doing: String,
    /// The system's reason.
    pub error: Error,
    /// Whether the file has its name all the same.
    pub in_place: bool,
}

fn at(doing: &str) -> impl FnOnce(Error) -> DiskError {
    move |error| DiskError { doing: doing.to_owned(), error, in_place: false }
}

/// A file being written, under no name that anybody knows.
pub struct PartFile<F> {
    file: F,
    unsynced_bytes: u64,
    sync_bytes: u64,
    /// None once it has reported an error, or a write has.
    syncer: Option<Syncer>,
}

impl<F: WrittenFile> PartFile<F> {
    /// Begins at its first byte.
    ///
    /// # Errors
    /// If there can be no second handle or no thread.
    pub fn new(file: F) -> std::result::Result<PartFile<F>, DiskError> {
        let syncer = file.syncing_handle().and_then(Syncer::start).map_err(at("start syncing"))?;
        Ok(PartFile { file, unsynced_bytes: 0, sync_bytes: SYNC_BYTES, syncer: Some(syncer) })
    }

    /// The same without a thread: it is synced each time so many bytes have been written.
    #[cfg(test)]
    pub(crate) fn syncing_at_once(file: F, sync_bytes: u64) -> std::result::Result<PartFile<F>, DiskError> {
        let syncer = file.syncing_handle().map(Syncer::at_once).map_err(at("start syncing"))?;
        Ok(PartFile { file, unsynced_bytes: 0, sync_bytes, syncer: Some(syncer) })
    }

    /// Writes the next bytes; now and then asks for what was written so far to be put on the disk.
    ///
    /// # Errors
    /// If the write fails, or a sync has failed: the file is lost then, whatever comes after.
    pub fn write_all(&mut self, bytes: &[u8]) -> std::result::Result<(), DiskError> {
        self.check_syncer()?;
        let written = self.file.write_all(bytes);
        self.went_on(written, bytes.len() as u64)
    }

    /// The next bytes are there already.
    ///
    /// # Errors
    /// As [`write_all`](PartFile::write_all).
    pub fn keep(&mut self, bytes: u64) -> std::result::Result<(), DiskError> {
        self.check_syncer()?;
        let kept = self.file.keep(bytes);
        self.went_on(kept, bytes)
    }

    fn went_on(&mut self, done: Result<()>, bytes: u64) -> std::result::Result<(), DiskError> {
        done.map_err(|error| {
            self.syncer = None;
            at("write")(error)
        })?;
        self.unsynced_bytes += bytes;
        if self.unsynced_bytes >= self.sync_bytes && self.syncer.as_mut().is_some_and(Syncer::tell) {
            self.unsynced_bytes = 0;
        }
        self.check_syncer()
    }

    /// Keeps beside the file where its bytes belong, and asks for that to be put on the disk.
    pub fn keep_prologue(&mut self, bytes: &[u8]) {
        self.file.keep_prologue(bytes);
        if let Some(syncer) = &mut self.syncer {
            syncer.tell();
        }
    }

    /// Leaves a hole of so many bytes.
    ///
    /// # Errors
    /// As for [`write_all`](PartFile::write_all).
    pub fn skip(&mut self, bytes: u64) -> std::result::Result<(), DiskError> {
        self.check_syncer()?;
        self.file.skip(bytes).map_err(|error| {
            self.syncer = None;
            at("leave a hole")(error)
        })
    }

    /// Puts everything on the disk, still under no name.
    ///
    /// # Errors
    /// If any sync of this file, this last one or one before, has failed.
    pub fn settle(mut self, attributes: Option<FileAttributes>) -> std::result::Result<SettledFile<F>, DiskError> {
        // First the early syncs: one that is under way may take the error away from the last.
        match self.syncer.take() {
            Some(syncer) => syncer.finish().map_err(at("sync"))?,
            None => return Err(lost()),
        }
        self.file.end(attributes).map_err(at("sync"))?;
        Ok(SettledFile { file: self.file })
    }

    /// Whether the syncer has ended, which it does only with an error; from then on nothing succeeds.
    fn check_syncer(&mut self) -> std::result::Result<(), DiskError> {
        match self.syncer.take_if(|syncer| syncer.has_ended()) {
            Some(ended) => Err(ended.finish().map_err(at("sync")).err().unwrap_or_else(lost)),
            None if self.syncer.is_none() => Err(lost()),
            None => Ok(()),
        }
    }
}

/// A file whose every byte is on the disk, still under no name that anybody knows.
pub struct SettledFile<F> {
    file: F,
}

impl<F: WrittenFile> SettledFile<F> {
    /// Hands over all bytes as they are read back from the disk.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn read_back(&mut self, take: impl FnMut(&[u8])) -> std::result::Result<(), DiskError> {
        self.file.read_back(take).map_err(at("read back what was written"))
    }

    /// Gives the file its name, and makes that last.
    ///
    /// # Errors
    /// If it cannot have that name; or it has, and the directory cannot be synced: then a crash may take the name away.
    pub fn publish(mut self, path: &Path, replace: bool) -> std::result::Result<(), DiskError> {
        self.file.name(path, replace).map_err(at(&format!("rename to {}", path.display())))?;
        self.file.sync_name(path).map_err(|error| DiskError { in_place: true, ..at("sync the directory")(error) })
    }
}

/// The answer to everything after the first failed write or sync.
fn lost() -> DiskError {
    at("sync")(Error::other("an earlier write or sync of the file failed"))
}

#[cfg(test)]
mod tests;
