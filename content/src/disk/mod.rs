//! Interface of a receiver's file operations, implemented by the real disk and by a simulated disk
//! for crash tests.
//!
//! All writes go through [`Directory`] and [`DiskFile`]. They are implemented by the host's
//! directories ([`Beneath`]), and in tests by a model that loses what was not synced and can fail
//! at any call. Errors are the system's; special ones are named at the calls.

mod attributes;
mod beneath;
#[cfg(test)]
pub(crate) mod model;

pub use attributes::{Accept, Given, Lack, LeftOut, Privilege, Setter};
pub use beneath::Beneath;

use crate::manifest::Special;
use ethbcast_collectives::OptionName;
use ethbcast_collectives::session::application::Tally;
use ethbcast_collectives::session::live::{StorageError, is_full};
use ethbcast_collectives::session::{FileAttributes, Outcome, Trailer};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Mode of a file that only its owner may read.
pub const PRIVATE_FILE: u32 = 0o600;
/// Mode of a file as a plain `open` creates it, before the umask.
pub const COMMON_FILE: u32 = 0o666;

#[doc(hidden)]
pub trait DiskFile: std::fmt::Debug + Send + Sync + Sized + 'static {
    /// Reads from `offset` on and returns the number of bytes, 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    fn bytes(&self) -> io::Result<u64>;

    /// Truncates the file to `bytes`, or extends it with a hole.
    fn set_bytes(&self, bytes: u64) -> io::Result<()>;

    /// Makes a range read as zeros without allocated blocks where possible. The range may go beyond
    /// the end; the length is unchanged.
    ///
    /// # Errors
    /// `Unsupported` from a file system that has no holes.
    fn punch(&self, part: Range<u64>) -> io::Result<()>;

    /// Allocates space for the first `bytes` bytes at once, so that they are contiguous and a lack
    /// of space is found early. A file system without allocation is left as it is.
    ///
    /// # Errors
    /// If there is too little.
    fn reserve(&self, bytes: u64) -> io::Result<()>;

    fn links(&self) -> io::Result<u64>;

    /// Whether the file is this user's alone: no other user owns it, may write to it, or has
    /// another name for it.
    fn is_private(&self) -> io::Result<bool>;

    /// Waits until all written bytes are on the disk and can be read from there. The first error
    /// decides: the next sync may succeed without the bytes.
    ///
    /// # Errors
    /// The system's error, including one of writing back since the last sync.
    fn sync_data(&self) -> io::Result<()>;

    /// Syncs the file with its metadata, such as mode and times.
    ///
    /// # Errors
    /// The errors of [`sync_data`](DiskFile::sync_data).
    fn sync(&self) -> io::Result<()>;

    /// Drops the file's pages from the page cache, so that the next read comes from the disk.
    fn forget(&self) -> io::Result<()>;

    fn try_clone(&self) -> io::Result<Self>;

    /// Locks the file until its last handle is closed; false if another process holds the lock.
    fn try_lock(&self) -> bool;

    /// Sets the attributes that the file has at the sender.
    fn set_attributes(&self, given: Given<'_>) -> io::Result<()>;

    /// Whether the file keeps a mode, an owner or extended attributes; tested on a file that no
    /// user sees.
    ///
    /// # Errors
    /// The system's, if it does not depend on the file system.
    fn keeps(&self, lack: Lack) -> io::Result<bool>;

    /// Sets the mode and time of a file that is sent alone.
    fn keep_attributes(&self, attributes: FileAttributes) -> io::Result<()>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Directory,
    File,
    /// A link, device node or anything else.
    Other,
}

/// An open directory. No operation leads out of it.
#[doc(hidden)]
pub trait Directory: std::fmt::Debug + Send + Sync + Sized + 'static {
    type File: DiskFile;

    /// Opens a directory below this one on the same file system.
    ///
    /// # Errors
    /// `CrossesDevices` for a mount point.
    fn directory(&self, path: &Path) -> io::Result<Self>;

    /// Creates a file; its name must be free.
    fn create(&self, name: &Path, mode: u32) -> io::Result<Self::File>;

    /// Creates a file without a name (`O_TMPFILE`), which vanishes when it is closed. Some file
    /// systems do not support it.
    fn create_nameless(&self, mode: u32) -> io::Result<Self::File>;

    /// Links a nameless file under a free name.
    fn name(&self, file: &Self::File, name: &Path) -> io::Result<()>;

    /// Opens a file for reading.
    fn file(&self, path: &Path) -> io::Result<Self::File>;

    /// Opens a regular file of this directory for writing, whatever its mode.
    fn take_up(&self, name: &Path) -> io::Result<Self::File>;

    /// Whether `name` in this directory is the open file.
    fn is_named(&self, file: &Self::File, name: &Path) -> bool;

    /// Whether `name` in this directory is the open directory.
    fn is_own(&self, directory: &Self, name: &Path) -> bool;

    /// Whether this directory is this user's, and no other user may write to it.
    fn is_private(&self) -> io::Result<bool>;

    fn make_directory(&self, name: &Path) -> io::Result<()>;

    /// Gives this process write access to a directory in this one.
    fn open_up(&self, name: &Path) -> io::Result<()>;

    fn make_symlink(&self, name: &Path, target: &[u8]) -> io::Result<()>;

    /// Creates a hard link in this directory to the file `of` in `other`.
    fn make_link(&self, name: &Path, other: &Self, of: &Path) -> io::Result<()>;

    fn make_special(&self, name: &Path, special: Special) -> io::Result<()>;

    /// Returns the kind of an entry of this directory without following a link, or none if it does
    /// not exist.
    fn kind(&self, name: &Path) -> io::Result<Option<Kind>>;

    /// Returns the seconds since an entry of this directory was last modified.
    fn age_seconds(&self, name: &Path) -> io::Result<u64>;

    /// Returns the allocated bytes of a file in this directory, divided by its number of links.
    fn allocated_bytes(&self, name: &Path) -> io::Result<u64>;

    /// Moves an entry of this directory into `other`, replacing any entry with the new name.
    fn rename(&self, name: &Path, other: &Self, to: &Path) -> io::Result<()>;

    /// Exchanges an entry of this directory with one of `other`.
    ///
    /// # Errors
    /// `InvalidInput` from a file system that cannot exchange.
    fn exchange(&self, name: &Path, other: &Self, to: &Path) -> io::Result<()>;

    /// Renames an entry of this directory to a name that is free or that of an empty directory.
    fn rename_to_free(&self, one: &Path, other: &Path) -> io::Result<()>;

    /// Removes an entry of this directory that is not a directory.
    fn remove(&self, name: &Path) -> io::Result<()>;

    /// Removes an empty directory in this one.
    fn remove_directory(&self, name: &Path) -> io::Result<()>;

    fn names(&self) -> io::Result<Vec<OsString>>;

    /// Whether this directory is still the one at `path`.
    fn is_at(&self, path: &Path) -> bool;

    /// Syncs the whole file system, and reports write-back errors since the directory was opened.
    fn sync_file_system(&self) -> io::Result<()>;

    fn sync_names(&self) -> io::Result<()>;

    fn try_clone(&self) -> io::Result<Self>;

    /// Locks the directory; false if another process holds the lock.
    fn try_lock(&self) -> bool;

    /// Sets the attributes that the directory has at the sender.
    fn set_attributes(&self, given: Given<'_>) -> io::Result<()>;

    /// Sets the attributes of an entry that is not opened: a link, device node or fifo in this
    /// directory.
    fn set_attributes_at(&self, name: &Path, given: Given<'_>, is_link: bool) -> io::Result<()>;

    /// Removes an entry of this directory with everything below it, except for other file systems.
    /// It goes on after an error.
    ///
    /// # Errors
    /// The first error of the system.
    fn remove_all(&self, name: &Path) -> io::Result<()> {
        remove_all(self, name)
    }

    /// Whether `name` is a directory in this one, and not a link to a directory.
    fn has_directory(&self, name: &Path) -> io::Result<bool> {
        Ok(self.kind(name)? == Some(Kind::Directory))
    }
}

/// Bytes per read when comparing, enough for BLAKE3 to use wide vectors.
const READ_BYTES: usize = 1 << 20;

/// Verifies a written content by reading it back; `read` is like [`DiskFile::read_at`].
pub(crate) fn verify(
    trailer: Trailer,
    read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
) -> Result<(), StorageError> {
    let (mut tally, mut buffer) = (Tally::default(), vec![0; READ_BYTES]);
    while tally.bytes() < trailer.bytes {
        let most = usize::try_from(trailer.bytes - tally.bytes())
            .unwrap_or(usize::MAX)
            .min(READ_BYTES);
        match read(&mut buffer[..most], tally.bytes())
            .map_err(|error| trouble("read back what was written", error))?
        {
            0 => break,
            count => tally.add(&buffer[..count]),
        }
    }
    tally.verify(trailer).map_err(|_| {
        let text = "the data read back from the disk differs from what was written: the disk, its cable or the memory \
                    is bad, or another process has written to it; choose another DEST";
        StorageError::new(Outcome::Damaged, text)
    })
}

/// Whether the error means that the name exists, as it does when the file system treats two names
/// as equal.
pub(crate) fn is_taken(error: &io::Error) -> bool {
    error.kind() == ErrorKind::AlreadyExists
}

pub(crate) fn one(name: &OsStr) -> &Path {
    Path::new(name)
}

fn or_here(path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        path.to_owned()
    }
}

/// Returns the error of `doing` something at DEST, with advice for the user.
pub fn trouble(doing: &str, error: io::Error) -> StorageError {
    let named;
    let help: &str = match error.kind() {
        ErrorKind::QuotaExceeded => {
            "; the quota is used up: make room, ask for more, or choose another DEST"
        }
        ErrorKind::FileTooLarge => {
            "; raise the limit (`ulimit -f`), or choose a DEST whose file system takes the size"
        }
        _ if is_full(&error) => "; make room or choose another DEST",
        ErrorKind::ResourceBusy => "; unmount it, or end what uses it",
        ErrorKind::CrossesDevices => {
            named = format!(
                "; it is on another file system than what holds it, or in a lower layer of a container's: use {}",
                OptionName("in-place")
            );
            &named
        }
        ErrorKind::PermissionDenied => "; let this user write there, or choose another DEST",
        ErrorKind::AlreadyExists => {
            named = format!("; remove it, or replace it with {}", OptionName("force"));
            &named
        }
        ErrorKind::IsADirectory => {
            "; a directory took its place meanwhile: remove it, or choose another DEST"
        }
        ErrorKind::ReadOnlyFilesystem => {
            "; the disk may have failed (see `dmesg`): choose another DEST"
        }
        _ if error.raw_os_error() == Some(libc::EIO) => {
            "; the disk is failing (see `dmesg`): choose another DEST"
        }
        _ => "",
    };
    StorageError::system(doing, error, help)
}

fn remove_all<D: Directory>(holder: &D, name: &Path) -> io::Result<()> {
    if !holder.has_directory(name)? {
        return holder.remove(name);
    }
    let below = holder
        .directory(name)
        .and_then(|directory| remove_below(&directory));
    below.and_then(|()| holder.remove_directory(name))
}

fn remove_below<D: Directory>(directory: &D) -> io::Result<()> {
    let removed = |name: OsString| remove_all(directory, one(&name));
    // Tries all entries before returning the first error.
    directory
        .names()?
        .into_iter()
        .map(removed)
        .fold(Ok(()), io::Result::and)
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
            (libc::EEXIST, "with force"),
            (libc::EISDIR, "choose another DEST"),
            (libc::EXDEV, "use in-place"),
            (libc::EACCES, "this user"),
        ] {
            let error = trouble("write", io::Error::from_raw_os_error(errno));
            assert!(error.to_string().contains(help), "{error}");
        }
    }
}
