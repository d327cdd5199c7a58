//! What the kinds of DEST that take bytes have in common: a file, a device, a pipe.

use crate::disk::DiskFile;
use crate::trouble;
use ethbcast_collectives::session::FileAttributes;
use ethbcast_collectives::session::live::{ReadAt, StorageError};
use std::io;
use std::path::PathBuf;

/// Bytes after which the kernel is asked to start writing, so that the final sync has little left to do.
pub(super) const SYNC_BYTES: u64 = 8 << 20;

/// DEST, from its first byte to its last: it is prepared when this is made; then written, verified and put.
pub(super) trait Kind: Send {
    /// How many bytes it can ever hold, if that is known.
    fn limit(&self) -> Option<u64> {
        None
    }

    /// The bytes of its sectors, if it has some.
    fn sector_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether its end waits for a disk.
    fn syncs(&self) -> bool {
        true
    }

    /// What is there at any position, as it is written; none of what cannot be read.
    fn handle(&self) -> Option<Box<dyn ReadAt>> {
        None
    }

    /// Whether something is there already that may be what comes; memory forgets what the disk does not have of it.
    fn has_some(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// What the run before kept of where its bytes belong.
    fn prologue(&self) -> &[u8] {
        &[]
    }

    /// Keeps beside the bytes where they belong, for whoever takes up what is left of them.
    fn keep_prologue(&mut self, _bytes: &[u8]) {}

    /// Writes the next bytes.
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError>;

    /// The next bytes are there already.
    fn keep(&mut self, bytes: u64) -> Result<(), StorageError>;

    /// The next bytes are zeros, and need no room if they can do without.
    fn skip(&mut self, bytes: u64) -> Result<(), StorageError>;

    /// That was all: gives it these attributes, and waits until all of it is on the disk.
    fn settle(&mut self, attributes: Option<FileAttributes>) -> Result<(), StorageError>;

    /// Hands over all that the disk has of it, not what memory keeps; false where nothing can be read back.
    fn read_back(&mut self, _take: &mut dyn FnMut(&[u8])) -> Result<bool, StorageError> {
        Ok(false)
    }

    /// Memory forgets what the disk has of it.
    fn forget(&self) {}

    /// Shows it under its name, and makes that last; where it is then, which may be so also if it fails.
    fn put(&mut self) -> (Option<PathBuf>, Result<(), StorageError>) {
        (None, Ok(()))
    }
}

/// A file that is read while it is written.
pub(super) struct Open<F>(pub F);

impl<F: DiskFile> ReadAt for Open<F> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}

/// What went wrong, and at what.
#[derive(Debug)]
pub(super) struct DiskError {
    /// What was being done, to be read after "cannot".
    pub doing: String,
    /// The system's reason.
    pub error: io::Error,
    /// Whether the file has its name all the same.
    pub in_place: bool,
}

/// What failed while `doing` something.
pub(super) fn at(doing: &str) -> impl FnOnce(io::Error) -> DiskError {
    move |error| DiskError { doing: doing.to_owned(), error, in_place: false }
}

impl From<DiskError> for StorageError {
    /// With what is true of it and what to do.
    fn from(DiskError { doing, error, in_place }: DiskError) -> StorageError {
        if in_place {
            let help = "; the file is in place and whole, but a crash may take its name away: sync the disk, or send \
                        again";
            return StorageError::system(&doing, error, help);
        }
        trouble(&doing, error)
    }
}
