//! Atomic replacement of files: they are written beside their place and renamed.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Writes a file durably.
///
/// # Errors
/// If the file system fails. The old file is then unchanged.
pub fn save(path: &Path, text: &str) -> io::Result<()> {
    put(path, |file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    })
}

/// Writes a file with this mode that will soon be rewritten, without a sync.
///
/// # Errors
/// As for [`save`].
pub fn renew(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    put(path, |file| {
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())
    })
}

/// Checks that a file could be written there.
///
/// # Errors
/// If it could not.
pub fn try_place(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let beside = beside(path);
    File::create(&beside).and_then(|_| fs::remove_file(&beside))
}

/// Returns `run.json.new` for `run.json`, which a search by suffix does not match.
fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    beside.into()
}

fn put(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let beside = beside(path);
    let put = File::create(&beside).and_then(|mut file| fill(&mut file)).and_then(|()| fs::rename(&beside, path));
    if put.is_err() {
        // A partial file is useless; if it cannot be removed, the next run overwrites it.
        drop(fs::remove_file(&beside));
    }
    put
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_with_its_mode_and_nothing_stays_beside_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("run.prom");
        for text in ["first\n", "second\n"] {
            renew(&path, text, 0o640).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("read"), text);
            try_place(&path).expect("it could");
            assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o640);
        }
        save(&path, "third\n").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), "third\n");
        assert_eq!(fs::read_dir(directory.path()).expect("listed").count(), 1);
    }

    #[test]
    fn what_cannot_be_put_in_its_place_leaves_nothing_beside_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let taken = directory.path().join("taken");
        fs::create_dir(&taken).expect("made");
        renew(&taken, "text", 0o644).expect_err("a directory is there");
        assert_eq!(fs::read_dir(directory.path()).expect("listed").count(), 1);
    }
}
