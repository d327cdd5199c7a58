//! A directory below which everything stays: paths are resolved by the kernel (`openat2`), which follows no symbolic
//! link and leads nowhere else, whoever changes the directory meanwhile.

use crate::manifest::Special;
use rustix::fs::{
    self as linux, AtFlags, Dev, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat, makedev, openat2,
};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

const STAY: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);
/// Nobody else looks into what is being built.
const PRIVATE_DIRECTORY: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;

/// An open directory.
#[derive(Debug)]
pub(super) struct Beneath(OwnedFd);

impl Beneath {
    /// Opens a directory by the path that the user gave: symbolic links in it are the user's own.
    pub(super) fn open(path: &Path) -> io::Result<Beneath> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Beneath(linux::open(path, flags, Mode::empty())?))
    }

    /// A directory below this one.
    pub(super) fn directory(&self, path: &Path) -> io::Result<Beneath> {
        if path.as_os_str().is_empty() {
            return Ok(Beneath(self.0.try_clone()?));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Beneath(openat2(&self.0, path, flags, Mode::empty(), STAY)?))
    }

    /// A new file; its name must be free.
    pub(super) fn create(&self, name: &Path) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(openat2(&self.0, name, flags, Mode::from_raw_mode(PRIVATE_FILE), STAY)?.into())
    }

    /// A file, to read.
    pub(super) fn file(&self, path: &Path) -> io::Result<File> {
        Ok(openat2(&self.0, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty(), STAY)?.into())
    }

    /// Makes a directory right in this one.
    pub(super) fn make_directory(&self, name: &Path) -> io::Result<()> {
        Ok(linux::mkdirat(&self.0, name, Mode::from_raw_mode(PRIVATE_DIRECTORY))?)
    }

    /// Makes a symbolic link right in this one.
    pub(super) fn make_symlink(&self, name: &Path, target: &[u8]) -> io::Result<()> {
        Ok(linux::symlinkat(target, &self.0, name)?)
    }

    /// Makes another name, right in this one, of what is right in `other`.
    pub(super) fn make_link(&self, name: &Path, other: &Beneath, of: &Path) -> io::Result<()> {
        Ok(linux::linkat(&other.0, of, &self.0, name, AtFlags::empty())?)
    }

    /// Makes a device node, fifo or socket right in this one.
    pub(super) fn make_special(&self, name: &Path, special: Special) -> io::Result<()> {
        let (kind, device): (FileType, Dev) = match special {
            Special::Character(major, minor) => (FileType::CharacterDevice, makedev(major, minor)),
            Special::Block(major, minor) => (FileType::BlockDevice, makedev(major, minor)),
            Special::Fifo => (FileType::Fifo, 0),
            Special::Socket => (FileType::Socket, 0),
        };
        Ok(linux::mknodat(&self.0, name, kind, Mode::from_raw_mode(PRIVATE_FILE), device)?)
    }

    /// What is right in this one under a name, itself if it is a link; none if there is nothing.
    pub(super) fn stat(&self, name: &Path) -> io::Result<Option<Stat>> {
        match linux::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a directory of that name is right in this one; what a link leads to does not count.
    pub(super) fn has_directory(&self, name: &Path) -> io::Result<bool> {
        let stat = self.stat(name)?;
        Ok(stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory))
    }

    /// Moves what is right in this one to a place right in `other`, whatever has that name there.
    pub(super) fn rename(&self, name: &Path, other: &Beneath, to: &Path) -> io::Result<()> {
        Ok(linux::renameat(&self.0, name, &other.0, to)?)
    }

    /// Moves one directory to the name of the other, which gets its name.
    pub(super) fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        Ok(linux::renameat_with(&self.0, one, &self.0, other, RenameFlags::EXCHANGE)?)
    }

    /// Gives what is right in this one another name, which must be free or that of an empty directory.
    pub(super) fn rename_to_free(&self, one: &Path, other: &Path) -> io::Result<()> {
        // An empty directory may be replaced; for all else the name has to be free.
        if self.has_directory(other)? {
            return self.rename(one, self, other);
        }
        match linux::renameat_with(&self.0, one, &self.0, other, RenameFlags::NOREPLACE) {
            // A file system that cannot do that at once.
            Err(rustix::io::Errno::INVAL) if self.stat(other)?.is_none() => self.rename(one, self, other),
            result => Ok(result?),
        }
    }

    /// Removes a file, link or whatever is no directory, right in this one.
    pub(super) fn remove(&self, name: &Path) -> io::Result<()> {
        Ok(linux::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes what is right in this one, a directory with all that is in it.
    pub(super) fn remove_all(&self, name: &Path) -> io::Result<()> {
        if !self.has_directory(name)? {
            return self.remove(name);
        }
        // The standard library goes down step by step and follows no link either.
        std::fs::remove_dir_all(self.own_path().join(name))
    }

    /// The names right in this one.
    pub(super) fn names(&self) -> io::Result<Vec<std::ffi::OsString>> {
        std::fs::read_dir(self.own_path())?.map(|entry| Ok(entry?.file_name())).collect()
    }

    /// Whether the directory is still the one at that path.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let own = linux::fstat(&self.0);
        let there = linux::stat(path);
        own.is_ok_and(|own| there.is_ok_and(|there| (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)))
    }

    /// Waits until all of its file system is on the disk; errors of writing back since it was opened are told.
    pub(super) fn sync_file_system(&self) -> io::Result<()> {
        Ok(linux::syncfs(&self.0)?)
    }

    /// Waits until its names are on the disk.
    pub(super) fn sync_names(&self) -> io::Result<()> {
        Ok(linux::fsync(&self.0)?)
    }

    /// Another handle of it.
    pub(super) fn try_clone(&self) -> io::Result<Beneath> {
        Ok(Beneath(self.0.try_clone()?))
    }

    /// Locks it for this process, if nobody else has.
    pub(super) fn try_lock(&self) -> bool {
        linux::flock(&self.0, linux::FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// Where the kernel shows the open directory.
    pub(super) fn own_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

impl AsFd for Beneath {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The error of a name that is taken, where two names of the sender are one here.
pub(super) fn is_taken(error: &io::Error) -> bool {
    error.kind() == ErrorKind::AlreadyExists
}

/// One name as a path.
pub(super) fn one(name: &OsStr) -> &Path {
    Path::new(name)
}
