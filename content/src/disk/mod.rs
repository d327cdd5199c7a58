//! What is done to a disk: the seam between what receives and what keeps it.
//!
//! Everything that a receiver writes goes through [`Directory`] and [`DiskFile`]: the directories of this system
//! ([`Beneath`]), or in tests a model that forgets what was not synced and fails at any call.

mod attributes;
mod beneath;
#[cfg(test)]
pub(crate) mod model;
mod removal;

pub use attributes::{Given, Lack, Setter};
pub use beneath::Beneath;

use crate::manifest::Special;
use ethbcast_collectives::session::FileAttributes;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The mode of a file that nobody else looks into.
pub const PRIVATE_FILE: u32 = 0o600;
/// What a plain `open` would give; the kernel takes the umask off.
pub const COMMON_FILE: u32 = 0o666;

/// An open file.
pub trait DiskFile: std::fmt::Debug + Send + Sync + Sized + 'static {
    /// Reads from `offset` on, and says how many bytes that were; none at the end.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// The system's.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// How long it is, in bytes.
    ///
    /// # Errors
    /// The system's.
    fn bytes(&self) -> io::Result<u64>;

    /// Makes it so long: what is behind is cut off, what is lacking is a hole.
    ///
    /// # Errors
    /// The system's.
    fn set_bytes(&self, bytes: u64) -> io::Result<()>;

    /// Makes a part of it, which may go beyond its end, read as zeros, which take no room if they need none; its length
    /// stays.
    ///
    /// # Errors
    /// The system's; `Unsupported` from a file system that has no holes.
    fn punch(&self, part: Range<u64>) -> io::Result<()>;

    /// Takes the room for so many bytes at once: they lie together, and that there is none is known at once. Where that
    /// cannot be done it is left.
    ///
    /// # Errors
    /// If there is too little.
    fn reserve(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// How many names it has.
    ///
    /// # Errors
    /// The system's.
    fn links(&self) -> io::Result<u64>;

    /// Waits until all bytes that were written are on the disk, and can be read from there. The first error counts: the
    /// next sync may succeed without the bytes.
    ///
    /// # Errors
    /// The system's, also of writing back since the last sync.
    fn sync_data(&self) -> io::Result<()>;

    /// The same with all that belongs to the file, its mode and times.
    ///
    /// # Errors
    /// As [`sync_data`](DiskFile::sync_data).
    fn sync(&self) -> io::Result<()>;

    /// Memory forgets what is on the disk, so that what is read next is what the disk has.
    ///
    /// # Errors
    /// The system's.
    fn forget(&self) -> io::Result<()>;

    /// Another handle of the same open file.
    ///
    /// # Errors
    /// The system's.
    fn try_clone(&self) -> io::Result<Self>;

    /// Locks it for this process as long as a handle is open; false if somebody else has.
    fn try_lock(&self) -> bool;

    /// Sets what it has at the sender.
    ///
    /// # Errors
    /// The system's.
    fn set_attributes(&self, given: Given<'_>) -> io::Result<()>;

    /// Whether it keeps a mode, an owner or extended attributes: of a file that nobody will see that is tried.
    ///
    /// # Errors
    /// The system's, if it says nothing of the file system.
    fn keeps(&self, lack: Lack) -> io::Result<bool>;

    /// Sets the mode and time that a single file keeps.
    ///
    /// # Errors
    /// The system's.
    fn keep_attributes(&self, attributes: FileAttributes) -> io::Result<()>;
}

/// What a name in a directory stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A link, a device node, or whatever else there is.
    Other,
}

/// An open directory, below which everything stays.
pub trait Directory: std::fmt::Debug + Send + Sync + Sized + 'static {
    /// What its files are.
    type File: DiskFile;

    /// A directory below this one, on the same file system.
    ///
    /// # Errors
    /// The system's; `CrossesDevices` for one on which another is mounted.
    fn directory(&self, path: &Path) -> io::Result<Self>;

    /// A new file; its name must be free.
    ///
    /// # Errors
    /// The system's.
    fn create(&self, name: &Path, mode: u32) -> io::Result<Self::File>;

    /// A new file without a name, of which nothing is left when it is closed; not every file system can make one.
    ///
    /// # Errors
    /// The system's.
    fn create_nameless(&self, mode: u32) -> io::Result<Self::File>;

    /// Gives a file without a name one that is free.
    ///
    /// # Errors
    /// The system's.
    fn name(&self, file: &Self::File, name: &Path) -> io::Result<()>;

    /// A file, to read.
    ///
    /// # Errors
    /// The system's.
    fn file(&self, path: &Path) -> io::Result<Self::File>;

    /// A regular file right in this one, to be written again, whatever its mode.
    ///
    /// # Errors
    /// The system's.
    fn take_up(&self, name: &Path) -> io::Result<Self::File>;

    /// Whether a name right in this one is that of an open file.
    fn is_named(&self, file: &Self::File, name: &Path) -> bool;

    /// Whether a name right in this one is that of an open directory.
    fn is_own(&self, directory: &Self, name: &Path) -> bool;

    /// Makes a directory right in this one.
    ///
    /// # Errors
    /// The system's.
    fn make_directory(&self, name: &Path) -> io::Result<()>;

    /// Lets this process write into a directory right in this one, whatever its mode.
    ///
    /// # Errors
    /// The system's.
    fn open_up(&self, name: &Path) -> io::Result<()>;

    /// Makes a symbolic link right in this one.
    ///
    /// # Errors
    /// The system's.
    fn make_symlink(&self, name: &Path, target: &[u8]) -> io::Result<()>;

    /// Makes another name, right in this one, of what is right in `other`.
    ///
    /// # Errors
    /// The system's.
    fn make_link(&self, name: &Path, other: &Self, of: &Path) -> io::Result<()>;

    /// Makes a device node, fifo or socket right in this one.
    ///
    /// # Errors
    /// The system's.
    fn make_special(&self, name: &Path, special: Special) -> io::Result<()>;

    /// What is right in this one under a name, itself if it is a link; none if there is nothing.
    ///
    /// # Errors
    /// The system's.
    fn kind(&self, name: &Path) -> io::Result<Option<Kind>>;

    /// Seconds since what has a name right in this one was last written to.
    ///
    /// # Errors
    /// The system's.
    fn age_seconds(&self, name: &Path) -> io::Result<u64>;

    /// How many bytes of the disk a file right in this one takes; of one with several names each has its share.
    ///
    /// # Errors
    /// The system's.
    fn allocated_bytes(&self, name: &Path) -> io::Result<u64>;

    /// Moves what is right in this one to a place right in `other`, whatever has that name there.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, name: &Path, other: &Self, to: &Path) -> io::Result<()>;

    /// Gives what is right in this one the name of what is right in `other`, which gets its name.
    ///
    /// # Errors
    /// The system's; `InvalidInput` from a file system that cannot.
    fn exchange(&self, name: &Path, other: &Self, to: &Path) -> io::Result<()>;

    /// Gives what is right in this one another name, which must be free or that of an empty directory.
    ///
    /// # Errors
    /// The system's.
    fn rename_to_free(&self, one: &Path, other: &Path) -> io::Result<()>;

    /// Removes a file, link or whatever is no directory, right in this one.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, name: &Path) -> io::Result<()>;

    /// Removes an empty directory right in this one.
    ///
    /// # Errors
    /// The system's.
    fn remove_directory(&self, name: &Path) -> io::Result<()>;

    /// The names right in this one.
    ///
    /// # Errors
    /// The system's.
    fn names(&self) -> io::Result<Vec<OsString>>;

    /// Whether the directory is still the one at that path.
    fn is_at(&self, path: &Path) -> bool;

    /// Waits until all of its file system is on the disk; errors of writing back since it was opened are told.
    ///
    /// # Errors
    /// The system's.
    fn sync_file_system(&self) -> io::Result<()>;

    /// Waits until its names are on the disk.
    ///
    /// # Errors
    /// The system's.
    fn sync_names(&self) -> io::Result<()>;

    /// Another handle of it.
    ///
    /// # Errors
    /// The system's.
    fn try_clone(&self) -> io::Result<Self>;

    /// Locks it for this process, if nobody else has.
    fn try_lock(&self) -> bool;

    /// Sets what the directory itself has at the sender.
    ///
    /// # Errors
    /// The system's.
    fn set_attributes(&self, given: Given<'_>) -> io::Result<()>;

    /// Sets those of something that is not opened: a link, a device node, a fifo, right in this one.
    ///
    /// # Errors
    /// The system's.
    fn set_attributes_at(&self, name: &Path, given: Given<'_>, is_link: bool) -> io::Result<()>;

    /// Removes what is right in this one, a directory with all that is in it, but for what is on other file systems.
    /// What cannot be removed stays, and all else goes.
    ///
    /// # Errors
    /// The first of the system's.
    fn remove_all(&self, name: &Path) -> io::Result<()> {
        removal::remove_all(self, name)
    }

    /// Whether a directory of that name is right in this one; what a link leads to does not count.
    ///
    /// # Errors
    /// The system's.
    fn has_directory(&self, name: &Path) -> io::Result<bool> {
        Ok(self.kind(name)? == Some(Kind::Directory))
    }
}

/// Bytes read back at once: enough for BLAKE3 to use wide vectors.
const READ_BYTES: usize = 1 << 20;

/// The first `bytes` bytes of what was synced, or all if there are fewer, as the disk has them.
pub(crate) fn read_back<F: DiskFile>(file: &F, bytes: u64, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    file.forget()?;
    let mut buffer = vec![0; READ_BYTES];
    let mut offset = 0;
    while offset < bytes {
        let most = usize::try_from(bytes - offset).unwrap_or(usize::MAX).min(READ_BYTES);
        match file.read_at(&mut buffer[..most], offset)? {
            0 => break,
            count => {
                take(&buffer[..count]);
                offset += count as u64;
            }
        }
    }
    Ok(())
}

/// The error of a name that is taken, where two names of the sender are one here.
pub(crate) fn is_taken(error: &io::Error) -> bool {
    error.kind() == ErrorKind::AlreadyExists
}

/// One name as a path.
pub(crate) fn one(name: &OsStr) -> &Path {
    Path::new(name)
}

/// A path of a directory, which may be given as nothing.
fn or_here(path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.to_owned() }
}
