//! Interface of the destinations that take bytes: file, device and pipe.

use crate::disk::DiskFile;
use crate::trouble;
use ethbcast_collectives::session::FileAttributes;
use ethbcast_collectives::session::live::{ReadAt, StorageError};
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Bytes after which a background sync starts, so that the final one has little left to do.
pub(super) const SYNC_BYTES: u64 = 8 << 20;

pub(super) trait Kind: Send {
    fn limit(&self) -> Option<u64> {
        None
    }

    fn sector_bytes(&self) -> Option<u64> {
        None
    }

    fn syncs(&self) -> bool {
        true
    }

    /// Returns random access to the data while it is written; none if it cannot be read.
    fn handle(&self) -> Option<Box<dyn ReadAt>> {
        None
    }

    /// Whether data is there already that may belong to the content. Its pages are dropped from the
    /// page cache.
    fn has_some(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    fn prologue(&self) -> &[u8] {
        &[]
    }

    fn keep_prologue(&mut self, _bytes: &[u8]) {}

    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError>;

    fn keep(&mut self, bytes: u64) -> Result<(), StorageError>;

    /// Writes zeros, as a hole if possible.
    fn skip(&mut self, bytes: u64) -> Result<(), StorageError>;

    fn settle(&mut self, attributes: Option<FileAttributes>) -> Result<(), StorageError>;

    /// Reads all data back from the disk instead of the page cache; false if it cannot be read
    /// back.
    fn read_back(&mut self, _take: &mut dyn FnMut(&[u8])) -> Result<bool, StorageError> {
        Ok(false)
    }

    fn forget(&self) {}

    /// Gives the content its final name and syncs that. The path is returned if the name was given,
    /// even after a later failure.
    fn put(&mut self) -> (Option<PathBuf>, Result<(), StorageError>) {
        (None, Ok(()))
    }
}

pub(super) struct Open<F>(pub F);

impl<F: DiskFile> ReadAt for Open<F> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}

/// Remarks about hidden files, for the user.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    /// Path of the data while a file is overwritten.
    pub broken: OnceLock<PathBuf>,
    /// Hidden file of somebody else where this run's would be.
    pub foreign: OnceLock<PathBuf>,
}

#[derive(Debug)]
pub(super) struct DiskError {
    pub doing: String,
    pub error: io::Error,
    /// Whether the file has its final name despite the error.
    pub in_place: bool,
}

pub(super) fn at(doing: &str) -> impl FnOnce(io::Error) -> DiskError {
    move |error| DiskError { doing: doing.to_owned(), error, in_place: false }
}

impl From<DiskError> for StorageError {
    fn from(DiskError { doing, error, in_place }: DiskError) -> StorageError {
        if in_place {
            let help = "; the file is in place and whole, but a crash may take its name away: sync the disk, or send \
                        again";
            return StorageError::system(&doing, error, help);
        }
        trouble(&doing, error)
    }
}
