//! Atomic replacement of files: written under a temporary name, then renamed. Other users of the
//! directory cannot redirect the write by a symbolic link.

use nix::unistd::geteuid;
use std::ffi::OsString;
use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

const ALL: u32 = 0o666;
const STICKY: u32 = 0o1000;

pub fn save(path: &Path, text: &str) -> io::Result<()> {
    put(path, ALL, |file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    })
}

/// Writes a file durably that nobody but its owner can read, who stays the same.
pub fn save_private(path: &Path, text: &str) -> io::Result<()> {
    let owner = path.metadata().ok().map(|about| (about.uid(), about.gid()));
    put(path, 0o600, |file| {
        let own = file.metadata()?;
        if let Some((user, group)) = owner.filter(|owner| *owner != (own.uid(), own.gid())) {
            fchown(&*file, Some(user), Some(group))?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()
    })
}

/// Writes a file with this mode that will soon be rewritten, without a sync.
pub fn renew(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    put(path, ALL, |file| {
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())
    })
}

pub fn try_place(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    beside(path, ALL).and_then(NamedTempFile::close)
}

/// Makes a file such as `.run.json.4fQz1a.new` for `run.json`, which a search by suffix does not
/// match. It is removed unless it is put in its place.
fn beside(path: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    let directory = path
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    // An error of `tempfile_in` would name the hidden path, which no user has given.
    let make = |hidden: &Path| {
        File::options()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(hidden)
    };
    tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".new")
        .make_in(directory, make)
}

fn put(path: &Path, mode: u32, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut beside = beside(path, mode)?;
    fill(beside.as_file_mut())?;
    beside.persist(path).map(drop).map_err(|error| error.error)
}

/// Makes a folder in which only this user, and root, can change a file or put another in its place.
/// Returns its path without links.
pub fn private_folder(folder: &Path) -> Result<PathBuf, String> {
    make_private(folder).map_err(|error| format!("cannot be made: {error}"))?;
    let unread = |error: io::Error| format!("cannot be read: {error}");
    let folder = folder.canonicalize().map_err(unread)?;
    for holder in folder.ancestors() {
        let about = holder.metadata().map_err(unread)?;
        let is_sound = if holder == folder {
            is_own_alone(&about)
        } else {
            let is_roots = about.uid() == 0;
            // In a sticky folder nobody can rename what is another's.
            (is_own(&about) || is_roots)
                && (!can_others_write(&about) || about.mode() & STICKY != 0)
        };
        if !is_sound {
            let holder = holder.display();
            return Err(format!("is in {holder}, which other users can change"));
        }
    }
    Ok(folder)
}

/// Makes the folder for this user alone, and those above it such that only this user changes them.
fn make_private(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    // With a umask of 002, the folders above would else be their group's, too.
    let mut above = DirBuilder::new();
    above.recursive(true).mode(0o755);
    folder
        .parent()
        .map_or(Ok(()), |parent| above.create(parent))?;
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Whether this user owns the file, and nobody else may write it.
pub fn is_own_alone(about: &Metadata) -> bool {
    is_own(about) && !can_others_write(about)
}

fn is_own(about: &Metadata) -> bool {
    about.uid() == geteuid().as_raw()
}

fn can_others_write(about: &Metadata) -> bool {
    about.mode() & 0o022 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::{Mode, umask};
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_that_another_user_has_laid_beside_the_file_is_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, secret) = (
            directory.path().join("run.prom"),
            directory.path().join("secret"),
        );
        fs::write(&secret, "secret").expect("written");
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("its mode");
        symlink(&secret, directory.path().join("run.prom.new")).expect("a link");
        try_place(&path).expect("it could");
        renew(&path, "metrics", 0o644).expect("written");
        save(&path, "a report").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), "a report");
        assert_eq!(fs::read_to_string(&secret).expect("read"), "secret");
        assert_eq!(
            secret.metadata().expect("there").permissions().mode() & 0o777,
            0o600
        );
    }

    #[test]
    fn a_file_is_replaced_whole_with_its_mode_and_nothing_stays_beside_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("run.prom");
        for text in ["first\n", "second\n"] {
            renew(&path, text, 0o640).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("read"), text);
            try_place(&path).expect("it could");
            assert_eq!(
                path.metadata().expect("there").permissions().mode() & 0o777,
                0o640
            );
        }
        save(&path, "third\n").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), "third\n");
        assert_eq!(fs::read_dir(directory.path()).expect("listed").count(), 1);
    }

    /// Regression: the message named `.run.json.4fQz1a.new`.
    #[test]
    fn an_error_names_no_path_beside_the_one_that_was_given() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("nowhere/run.json");
        for error in [
            try_place(&path),
            save(&path, "text"),
            renew(&path, "text", 0o644),
        ] {
            let error = error.expect_err("there is no such directory").to_string();
            assert!(
                error.contains("No such file") && !error.contains("run.json"),
                "{error}"
            );
        }
    }

    /// Regression: the cache was never used where a umask of 002 let the group write `~/.cache`.
    #[test]
    fn folders_above_a_private_one_are_not_their_groups_whatever_the_umask() {
        let directory = tempfile::tempdir().expect("a directory");
        let own = directory.path().join("cache/a/own");
        let earlier = umask(Mode::from_bits_truncate(0o002));
        let made = private_folder(&own);
        umask(earlier);
        made.expect("others may not write");
        for above in ["cache", "cache/a"] {
            let about = directory.path().join(above).metadata().expect("there");
            assert_eq!(about.permissions().mode() & 0o777, 0o755, "{above}");
        }
    }

    #[test]
    fn a_private_folder_is_no_folder_that_others_can_change() {
        let mode = |path: &Path, mode: u32| {
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("its mode");
        };
        let directory = tempfile::tempdir().expect("a directory");
        let above = directory.path().join("above");
        let own = above.join("a/own");
        private_folder(&own).expect("made");
        assert_eq!(
            own.metadata().expect("there").permissions().mode() & 0o777,
            0o700
        );
        for shared in [&own, &above] {
            for bits in [0o777, 0o720, 0o702] {
                mode(shared, bits);
                let why = private_folder(&own).expect_err("others may write");
                assert!(why.contains("which other users can change"), "{why}");
            }
            mode(shared, 0o700);
        }
        // Others may write beside it where they cannot rename it.
        mode(&above, 0o1777);
        let link = directory.path().join("link");
        symlink(&own, &link).expect("a link");
        assert_eq!(
            private_folder(&link),
            own.canonicalize().map_err(|error| error.to_string())
        );
        if geteuid().is_root() {
            std::os::unix::fs::chown(&own, Some(65_534), None).expect("another's");
            assert!(private_folder(&own).is_err());
        }
        let why = private_folder(Path::new("/dev/null/own")).expect_err("it is no folder");
        assert!(why.contains("cannot be made"), "{why}");
    }

    #[test]
    fn a_file_that_cannot_be_renamed_into_place_leaves_nothing_beside_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let taken = directory.path().join("taken");
        fs::create_dir(&taken).expect("made");
        renew(&taken, "text", 0o644).expect_err("a directory is there");
        assert_eq!(fs::read_dir(directory.path()).expect("listed").count(), 1);
    }
}
