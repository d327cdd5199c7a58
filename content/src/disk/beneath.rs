//! Access to files strictly below a directory, so that no symbolic link leads outside (`openat2`).

use super::attributes::{Given, keep_attributes, keeps};
use super::{Directory, DiskFile, Kind, Lack, or_here};
use crate::manifest::Special;
use ethbcast_collectives::session::FileAttributes;
use rustix::fs::{
    self as linux, AtFlags, Dev, FallocateFlags, FileType, FlockOperation, Mode, OFlags,
    RenameFlags, ResolveFlags, Stat, StatxFlags, makedev, openat2,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// Resolution below the directory, which crosses no mount point, not even a bind mount of its own
/// file system.
const STAY: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
/// File system type of tmpfs (statfs(2)), where reserving space would touch all of it.
const TMPFS: u64 = 0x0102_1994;
const PRIVATE_DIRECTORY: u32 = 0o700;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const OWN_DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
const TAKEN_UP: OFlags = OFlags::RDWR.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

#[derive(Debug)]
pub struct Beneath(OwnedFd);

impl Beneath {
    /// Opens a directory by the path that the user gave; symbolic links in that path are followed.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(path: &Path) -> io::Result<Beneath> {
        Ok(Beneath(linux::open(
            or_here(path),
            OWN_DIRECTORY,
            Mode::empty(),
        )?))
    }

    pub(crate) fn own_path(&self) -> PathBuf {
        shown(&self.0)
    }

    pub(crate) fn path_of(&self, name: &Path) -> PathBuf {
        std::fs::read_link(self.own_path()).map_or_else(|_| name.to_owned(), |path| path.join(name))
    }

    /// Opens the entry first, because its name could be given to another file meanwhile.
    fn set_mode(&self, name: &Path, mode: u32) -> io::Result<()> {
        let there = self.open_file(name, OFlags::PATH | OFlags::NOFOLLOW, 0)?;
        Ok(linux::chmod(shown(&there), Mode::from_raw_mode(mode))?)
    }

    fn open_file(&self, path: &Path, flags: OFlags, mode: u32) -> io::Result<File> {
        Ok(open_below(self.as_fd(), path, flags, Mode::from_raw_mode(mode))?.into())
    }
}

fn open_below(
    from: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    match openat2(from, path, flags | OFlags::CLOEXEC, mode, STAY) {
        // Linux before 5.6, and a service under systemd's RestrictSUIDSGID, which DynamicUser
        // implies.
        Err(Errno::NOSYS) => walk(from, path, flags, mode),
        opened => opened,
    }
}

/// Opens one component of a path after the other, where there is no `openat2`.
fn walk(
    from: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    let mount = mount_id(from)?;
    let mut names = path.components().peekable();
    let mut reached: Option<OwnedFd> = None;
    while let Some(component) = names.next() {
        let name = match component {
            Component::Normal(name) => name,
            Component::CurDir => OsStr::new("."),
            _ => return Err(Errno::XDEV),
        };
        let is_last = names.peek().is_none();
        let how = if is_last {
            flags
        } else {
            OFlags::PATH | OFlags::DIRECTORY
        };
        let at = reached.as_ref().map_or(from, AsFd::as_fd);
        let next = linux::openat(at, name, how | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)?;
        if mount_id(next.as_fd())? != mount {
            return Err(Errno::XDEV);
        }
        reached = Some(next);
    }
    reached.ok_or(Errno::NOENT)
}

/// Returns the mount that a file is on; `None` on Linux before 5.8 without /proc.
fn mount_id(file: BorrowedFd<'_>) -> rustix::io::Result<Option<u64>> {
    let stat = linux::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    if StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::MNT_ID) {
        return Ok(Some(stat.stx_mnt_id));
    }
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))
        .unwrap_or_default();
    Ok(text
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok()))
}

fn shown(open: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()))
}

fn is_private(stat: &Stat) -> bool {
    stat.st_uid == geteuid().as_raw() && stat.st_mode & WRITABLE_BY_OTHERS == 0
}

fn same(one: rustix::io::Result<Stat>, other: rustix::io::Result<Stat>) -> bool {
    one.is_ok_and(|one| {
        other.is_ok_and(|other| (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
    })
}

impl Directory for Beneath {
    type File = File;

    fn directory(&self, path: &Path) -> io::Result<Beneath> {
        if path.as_os_str().is_empty() {
            return Directory::try_clone(self);
        }
        let below = open_below(self.as_fd(), path, OWN_DIRECTORY, Mode::empty())?;
        // A btrfs subvolume is not a mount point, but it is a file system of its own.
        if linux::fstat(&below)?.st_dev != linux::fstat(&self.0)?.st_dev {
            return Err(rustix::io::Errno::XDEV.into());
        }
        Ok(Beneath(below))
    }

    fn create(&self, name: &Path, mode: u32) -> io::Result<File> {
        self.open_file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode)
    }

    fn create_nameless(&self, mode: u32) -> io::Result<File> {
        let file = self.open_file(Path::new("."), OFlags::RDWR | OFlags::TMPFILE, mode)?;
        // The file will be linked by this path.
        std::fs::symlink_metadata(shown(&file))?;
        Ok(file)
    }

    fn name(&self, file: &File, name: &Path) -> io::Result<()> {
        Ok(linux::linkat(
            linux::CWD,
            shown(file),
            &self.0,
            name,
            AtFlags::SYMLINK_FOLLOW,
        )?)
    }

    fn file(&self, path: &Path) -> io::Result<File> {
        self.open_file(path, OFlags::RDONLY | OFlags::NONBLOCK, 0)
    }

    fn take_up(&self, name: &Path) -> io::Result<File> {
        let file = match self.open_file(name, TAKEN_UP, 0) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.set_mode(name, super::PRIVATE_FILE)?;
                self.open_file(name, TAKEN_UP, 0)?
            }
            opened => opened?,
        };
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::other("it is no regular file"))
        }
    }

    fn is_named(&self, file: &File, name: &Path) -> bool {
        same(
            linux::fstat(file),
            linux::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW),
        )
    }

    fn is_own(&self, directory: &Beneath, name: &Path) -> bool {
        same(
            linux::fstat(&directory.0),
            linux::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW),
        )
    }

    fn is_private(&self) -> io::Result<bool> {
        Ok(is_private(&linux::fstat(&self.0)?))
    }

    fn make_directory(&self, name: &Path) -> io::Result<()> {
        Ok(linux::mkdirat(
            &self.0,
            name,
            Mode::from_raw_mode(PRIVATE_DIRECTORY),
        )?)
    }

    fn open_up(&self, name: &Path) -> io::Result<()> {
        self.set_mode(name, PRIVATE_DIRECTORY)
    }

    fn make_symlink(&self, name: &Path, target: &[u8]) -> io::Result<()> {
        Ok(linux::symlinkat(target, &self.0, name)?)
    }

    fn make_link(&self, name: &Path, other: &Beneath, of: &Path) -> io::Result<()> {
        Ok(linux::linkat(
            &other.0,
            of,
            &self.0,
            name,
            AtFlags::empty(),
        )?)
    }

    fn make_special(&self, name: &Path, special: Special) -> io::Result<()> {
        let (kind, device): (FileType, Dev) = match special {
            Special::Character(major, minor) => (FileType::CharacterDevice, makedev(major, minor)),
            Special::Block(major, minor) => (FileType::BlockDevice, makedev(major, minor)),
            Special::Fifo => (FileType::Fifo, 0),
            Special::Socket => (FileType::Socket, 0),
        };
        Ok(linux::mknodat(
            &self.0,
            name,
            kind,
            Mode::from_raw_mode(super::PRIVATE_FILE),
            device,
        )?)
    }

    fn kind(&self, name: &Path) -> io::Result<Option<Kind>> {
        match linux::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => Kind::Directory,
                FileType::RegularFile => Kind::File,
                _ => Kind::Other,
            })),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn age_seconds(&self, name: &Path) -> io::Result<u64> {
        let modified = std::fs::symlink_metadata(self.own_path().join(name))?.modified()?;
        Ok(modified.elapsed().map_or(0, |age| age.as_secs()))
    }

    fn allocated_bytes(&self, name: &Path) -> io::Result<u64> {
        let stat = linux::statx(
            &self.0,
            name,
            AtFlags::SYMLINK_NOFOLLOW,
            StatxFlags::BASIC_STATS,
        )?;
        Ok(stat.stx_blocks.saturating_mul(512) / u64::from(stat.stx_nlink).max(1))
    }

    fn rename(&self, name: &Path, other: &Beneath, to: &Path) -> io::Result<()> {
        Ok(linux::renameat(&self.0, name, &other.0, to)?)
    }

    fn exchange(&self, name: &Path, other: &Beneath, to: &Path) -> io::Result<()> {
        Ok(linux::renameat_with(
            &self.0,
            name,
            &other.0,
            to,
            RenameFlags::EXCHANGE,
        )?)
    }

    fn rename_to_free(&self, one: &Path, other: &Path) -> io::Result<()> {
        // Only an empty directory may be replaced; any other name must be free.
        if self.has_directory(other)? {
            return self.rename(one, self, other);
        }
        match linux::renameat_with(&self.0, one, &self.0, other, RenameFlags::NOREPLACE) {
            // The file system cannot rename without replacing.
            Err(rustix::io::Errno::INVAL) if self.kind(other)?.is_none() => {
                self.rename(one, self, other)
            }
            Err(rustix::io::Errno::INVAL) => Err(rustix::io::Errno::EXIST.into()),
            result => Ok(result?),
        }
    }

    fn remove(&self, name: &Path) -> io::Result<()> {
        Ok(linux::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    fn remove_directory(&self, name: &Path) -> io::Result<()> {
        Ok(linux::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    fn names(&self) -> io::Result<Vec<std::ffi::OsString>> {
        std::fs::read_dir(self.own_path())?
            .map(|entry| Ok(entry?.file_name()))
            .collect()
    }

    fn is_at(&self, path: &Path) -> bool {
        same(linux::fstat(&self.0), linux::stat(or_here(path)))
    }

    fn sync_file_system(&self) -> io::Result<()> {
        Ok(linux::syncfs(&self.0)?)
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(linux::fsync(&self.0)?)
    }

    fn try_clone(&self) -> io::Result<Beneath> {
        Ok(Beneath(self.0.try_clone()?))
    }

    fn try_lock(&self) -> bool {
        linux::flock(&self.0, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    fn set_attributes(&self, given: Given<'_>) -> io::Result<()> {
        given.set(&self.0)
    }

    fn set_attributes_at(&self, name: &Path, given: Given<'_>, is_link: bool) -> io::Result<()> {
        given.set_at(&self.0, name, is_link)
    }
}

impl DiskFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn punch(&self, part: Range<u64>) -> io::Result<()> {
        let make = |how| {
            linux::fallocate(
                self,
                how | FallocateFlags::KEEP_SIZE,
                part.start,
                part.end - part.start,
            )
        };
        // For a device that cannot discard, the kernel may write zeros.
        Ok(make(FallocateFlags::PUNCH_HOLE).or_else(|_| make(FallocateFlags::ZERO_RANGE))?)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        if bytes == 0 || linux::fstatfs(self).is_ok_and(|system| system.f_type as u64 == TMPFS) {
            return Ok(());
        }
        match linux::fallocate(self, FallocateFlags::KEEP_SIZE, 0, bytes).map_err(io::Error::from) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                ) =>
            {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    fn links(&self) -> io::Result<u64> {
        Ok(self.metadata()?.nlink())
    }

    fn is_private(&self) -> io::Result<bool> {
        let stat = linux::fstat(self)?;
        Ok(is_private(&stat) && stat.st_nlink == 1)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }

    fn forget(&self) -> io::Result<()> {
        // On tmpfs the page cache is the storage.
        Ok(linux::fadvise(self, 0, None, linux::Advice::DontNeed)?)
    }

    fn try_clone(&self) -> io::Result<File> {
        File::try_clone(self)
    }

    fn try_lock(&self) -> bool {
        linux::flock(self, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    fn set_attributes(&self, given: Given<'_>) -> io::Result<()> {
        given.set(self)
    }

    fn keeps(&self, lack: Lack) -> io::Result<bool> {
        keeps(self, lack)
    }

    fn keep_attributes(&self, attributes: FileAttributes) -> io::Result<()> {
        keep_attributes(self, attributes)
    }
}

impl AsFd for Beneath {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Opens by both methods; each returns the inode, or `None` if it refuses.
    fn both(from: &Path, path: &str, flags: OFlags) -> [Option<u64>; 2] {
        let from = Beneath::open(from).expect("a directory");
        let mode = if flags.contains(OFlags::CREATE) {
            Mode::RUSR
        } else {
            Mode::empty()
        };
        let path = Path::new(path);
        let by_kernel = openat2(&from, path, flags | OFlags::CLOEXEC, mode, STAY);
        [by_kernel, walk(from.as_fd(), path, flags, mode)]
            .map(|opened| Some(linux::fstat(opened.ok()?).ok()?.st_ino))
    }

    #[test]
    fn a_walk_opens_and_refuses_what_openat2_does() {
        let folder = tempfile::tempdir().expect("a directory");
        let top = folder.path().join("top");
        std::fs::create_dir_all(top.join("a/b")).expect("made");
        std::fs::write(top.join("a/b/file"), "text").expect("written");
        std::fs::write(folder.path().join("outside"), "text").expect("written");
        for (target, link) in [
            ("a", "link"),
            ("b/file", "a/file"),
            ("../outside", "out"),
            ("..", "a/up"),
        ] {
            symlink(target, top.join(link)).expect("made");
        }
        for path in ["a", "a/b", "a/b/file", ".", "./a/./b"] {
            let [one, other] = both(&top, path, OFlags::RDONLY | OFlags::NONBLOCK);
            assert!(one.is_some() && one == other, "{path}");
        }
        let below = [
            "",
            "none",
            "a/none",
            "a/b/file/x",
            "link",
            "link/b",
            "a/file",
            "a/up/a",
            "a/../a/b/file/x",
        ];
        for path in below
            .into_iter()
            .chain(["out", "..", "../top/a", "../outside", "/", "/etc"])
        {
            assert_eq!(
                both(&top, path, OFlags::RDONLY | OFlags::NONBLOCK),
                [None, None],
                "{path}"
            );
        }
        let [one, other] = both(&top, "link", OFlags::PATH | OFlags::NOFOLLOW);
        assert!(one.is_some() && one == other, "the link itself");
        assert_eq!(
            both(
                &top,
                "a/b/file",
                OFlags::RDWR | OFlags::CREATE | OFlags::EXCL
            ),
            [None, None],
            "it is there"
        );
    }

    #[test]
    fn a_walk_enters_no_mount_point() {
        assert_eq!(both(Path::new("/"), "proc", OWN_DIRECTORY), [None, None]);
        assert_eq!(
            both(Path::new("/"), "proc/self/status", OFlags::RDONLY),
            [None, None]
        );
    }

    #[test]
    fn a_walk_makes_files_with_and_without_names() {
        let folder = tempfile::tempdir().expect("a directory");
        let top = Beneath::open(folder.path()).expect("a directory");
        let mode = Mode::from_raw_mode(0o640);
        for (path, flags) in [
            ("new", OFlags::CREATE | OFlags::EXCL),
            (".", OFlags::TMPFILE),
        ] {
            let made =
                walk(top.as_fd(), Path::new(path), OFlags::RDWR | flags, mode).expect("made");
            assert_eq!(
                linux::fstat(&made).expect("open").st_mode & 0o777,
                0o640,
                "{path}"
            );
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 1);
    }
}
