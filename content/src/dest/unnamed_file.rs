//! A file without a name: a process that dies, however it dies, leaves nothing of it.
//!
//! Where the file system cannot make one (`O_TMPFILE`), it has a hidden name for as long as it is unfinished, and a
//! lock that ends with its process: what is not locked was left by a dead one, and is removed by the next receiver.

use crate::unfinished::Unfinished;
use nix::fcntl::{AT_FDCWD, AtFlags, Flock, FlockArg};
use nix::libc;
use nix::unistd::linkat;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::{Builder, TempPath};

const PREFIX: &str = ".ethbcast-";
const SUFFIX: &str = ".part";
/// What a plain `open` would give; the kernel takes the umask off.
const MODE: u32 = 0o666;
/// How often a hidden name is made anew because somebody took the file for that of a dead process.
const ATTEMPTS: usize = 10;

/// A file that is being written, and will have a name when it is whole.
#[derive(Debug)]
pub struct UnnamedFile {
    file: File,
    directory: PathBuf,
    /// Where there are no files without a name.
    hidden: Option<HiddenName>,
    /// Held by this process alone, for as long as the file is unfinished; none where the file system has no locks.
    _lock: Option<Flock<File>>,
}

/// A hidden name, which is gone when this is dropped, and when an impatient user ends the process.
#[derive(Debug)]
struct HiddenName {
    path: TempPath,
    _unfinished: Unfinished,
}

impl UnnamedFile {
    /// A new file in `directory`.
    ///
    /// # Errors
    /// If nothing can be written there.
    pub fn create(directory: &Path) -> Result<UnnamedFile> {
        UnnamedFile::nameless(directory).or_else(|_| UnnamedFile::hidden(directory))
    }

    /// One that has no name at all, which not every file system can do.
    fn nameless(directory: &Path) -> Result<UnnamedFile> {
        let options = OpenOptions::new().read(true).write(true).mode(MODE).custom_flags(libc::O_TMPFILE).clone();
        let file = options.open(directory)?;
        // It will get its name by this one.
        fs::symlink_metadata(own_path(&file))?;
        let _lock = lock(&file);
        Ok(UnnamedFile { file, directory: directory.to_owned(), hidden: None, _lock })
    }

    /// One that has a hidden name for the time being.
    fn hidden(directory: &Path) -> Result<UnnamedFile> {
        for _ in 0..ATTEMPTS {
            let (file, path) = hidden_name(directory, |path| {
                OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(path)
            })?;
            let _lock = lock(&file);
            // Before it was locked another receiver may have taken it for that of a dead one.
            if path.path.metadata().is_ok_and(|named| file.metadata().is_ok_and(|own| own.ino() == named.ino())) {
                return Ok(UnnamedFile { file, directory: directory.to_owned(), hidden: Some(path), _lock });
            }
        }
        Err(Error::new(ErrorKind::AlreadyExists, "temporary files are removed as they are made"))
    }

    /// Where the file is replaced: a hidden name that can be renamed.
    fn link_hidden(&self) -> Result<HiddenName> {
        let file = own_path(&self.file);
        hidden_name(&self.directory, |path| link(&file, path)).map(|((), path)| path)
    }

    /// The open file.
    pub fn as_file(&self) -> &File {
        &self.file
    }

    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// The system's.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes)
    }

    /// Gives it its name; what has that name already is replaced only if `replace`.
    ///
    /// # Errors
    /// If it cannot have that name.
    pub fn name(&mut self, path: &Path, replace: bool) -> Result<()> {
        let hidden = match self.hidden.take() {
            Some(hidden) => hidden,
            None => match link(&own_path(&self.file), path) {
                Err(error) if replace && error.kind() == ErrorKind::AlreadyExists => self.link_hidden()?,
                result => return result,
            },
        };
        let named = if replace { hidden.path.persist(path) } else { hidden.path.persist_noclobber(path) };
        named.map_err(|error| error.error)
    }
}

/// A new hidden name in `directory`, which `make` makes; where it exists already, another is tried.
fn hidden_name<T>(directory: &Path, make: impl FnMut(&Path) -> Result<T>) -> Result<(T, HiddenName)> {
    let (made, path) = Builder::new()
        .prefix(PREFIX)
        .suffix(SUFFIX)
        .permissions(Permissions::from_mode(MODE))
        .make_in(directory, make)?
        .into_parts();
    let _unfinished = Unfinished::note(&path);
    Ok((made, HiddenName { path, _unfinished }))
}

/// A name for an open file that has none, if nothing else has it.
fn link(file: &Path, path: &Path) -> Result<()> {
    linkat(AT_FDCWD, file, AT_FDCWD, path, AtFlags::AT_SYMLINK_FOLLOW).map_err(Error::from)
}

/// Where the kernel shows an open file.
fn own_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// A lock on the file, unless somebody has one or the file system knows none.
fn lock(file: &File) -> Option<Flock<File>> {
    Flock::lock(file.try_clone().ok()?, FlockArg::LockExclusiveNonblock).ok()
}

/// Removes the hidden files in `directory` whose processes are dead, and says how many those were.
pub fn remove_stale(directory: &Path) -> usize {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let is_hidden = |name: &str| name.starts_with(PREFIX) && name.ends_with(SUFFIX);
    let names = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_hidden));
    names.filter(|entry| remove_if_dead(&entry.path()).is_ok_and(|removed| removed)).count()
}

fn remove_if_dead(path: &Path) -> Result<bool> {
    // Whatever has that name, a pipe or a link, is not waited for and not followed.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    let Some(_lock) = lock(&file) else { return Ok(false) };
    fs::remove_file(path).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Create = fn(&Path) -> Result<UnnamedFile>;
    const KINDS: [Create; 2] = [UnnamedFile::nameless, UnnamedFile::hidden];

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("readable").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_gets_its_name_whole_and_takes_that_of_another_only_if_it_may() {
        for create in KINDS {
            let directory = tempfile::tempdir().expect("a directory");
            let path = directory.path().join("there");
            for (replace, expected) in [(false, "first"), (false, "first"), (true, "third")] {
                let mut file = create(directory.path()).expect("a file");
                file.write_all(if replace { b"third" } else { b"first" }).expect("room");
                let before = path.exists();
                let named = file.name(&path, replace);
                assert_eq!(named.is_ok(), replace || !before);
                assert!(named.is_ok() || named.is_err_and(|error| error.kind() == ErrorKind::AlreadyExists));
                drop(file);
                assert_eq!(fs::read_to_string(&path).expect("there"), expected);
                assert_eq!(names(directory.path()), ["there"]);
            }
        }
    }

    #[test]
    fn what_has_a_name_before_it_is_whole_is_removed_once_its_process_is_dead() {
        let directory = tempfile::tempdir().expect("a directory");
        let alive = UnnamedFile::hidden(directory.path()).expect("a file");
        let nameless = UnnamedFile::nameless(directory.path()).expect("a file");
        let linked = nameless.link_hidden().expect("a name");
        fs::write(directory.path().join(".ethbcast-dead01.part"), b"half").expect("room");
        fs::write(directory.path().join(".ethbcast-notes"), b"mine").expect("room");
        fs::create_dir(directory.path().join(".ethbcast-odd.part")).expect("room");
        assert_eq!(names(directory.path()).len(), 5);
        assert_eq!(remove_stale(directory.path()), 1);
        assert_eq!(names(directory.path()).len(), 4);
        drop((alive, linked));
        assert_eq!(names(directory.path()).len(), 2, "{:?}", names(directory.path()));
    }
}
