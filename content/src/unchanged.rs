//! Detection of a SOURCE that changes while it is sent, which would mix old and new data unnoticed.

use crate::page_cache::Passing;
use ethbcast_collectives::session::live::ReadAt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file and its stamp at the time of opening.
#[derive(Debug)]
pub struct Unchanged {
    path: PathBuf,
    before: Stamp,
}

/// Attributes that change with a file's content, or when another file takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    /// Seconds and nanoseconds of the last status change, which a user cannot set back.
    changed: (i64, i64),
}

impl Stamp {
    /// Returns the stamp of a file.
    pub fn of(file: &Metadata) -> Stamp {
        Stamp {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }

    /// Returns the attribute that differs in `after`, in words.
    pub fn difference(&self, after: &Stamp) -> Option<String> {
        Some(match after {
            after if (after.device, after.inode) != (self.device, self.inode) => {
                "another file has taken its place".to_owned()
            }
            after if after.bytes != self.bytes => format!("{} bytes at first, {} in the end", self.bytes, after.bytes),
            after if after.modified != self.modified => "it was written to".to_owned(),
            after if after.changed != self.changed => "its state has changed (ctime)".to_owned(),
            _ => return None,
        })
    }
}

impl Unchanged {
    /// Records the file's present state.
    pub fn new(path: &Path, opened: &Metadata) -> Unchanged {
        Unchanged { path: path.to_owned(), before: Stamp::of(opened) }
    }

    /// Checks that the open file, and the file under its name, are unchanged.
    ///
    /// # Errors
    /// The difference, in words.
    pub fn check(&self, file: &File) -> io::Result<()> {
        let difference = match (self.before.difference(&Stamp::of(&file.metadata()?)), self.path.metadata()) {
            (Some(difference), _) => difference,
            (None, Ok(named)) => match self.before.difference(&Stamp::of(&named)) {
                Some(difference) => difference,
                None => return Ok(()),
            },
            (None, Err(error)) => format!("it is no longer under its name ({error})"),
        };
        let help = "send it again when it is at rest, or as it comes with --allow-changing";
        Err(io::Error::other(format!("it changed while it was sent: {difference}; {help}")))
    }
}

/// Reader of a whole file that reports the end only if the file is unchanged.
#[derive(Debug)]
pub struct WholeFile {
    file: Passing,
    unchanged: Unchanged,
}

impl WholeFile {
    /// Creates a reader of `file`, which must stay unchanged.
    pub fn new(file: Passing, unchanged: Unchanged) -> WholeFile {
        WholeFile { file, unchanged }
    }
}

impl Read for WholeFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            self.unchanged.check(self.file.file())?;
        }
        Ok(count)
    }
}

/// Random access to a file that fails once the file has changed: the bytes would no longer match
/// the digest that was sent, and receivers would report corruption by the network.
#[derive(Debug)]
pub struct UnchangedAt<P> {
    positions: P,
    watched: Option<(File, Unchanged)>,
}

impl<P> UnchangedAt<P> {
    /// Creates a reader over `positions` that checks the file in `watched`, if there is one.
    pub fn new(positions: P, watched: Option<(File, Unchanged)>) -> UnchangedAt<P> {
        UnchangedAt { positions, watched }
    }
}

impl<P: ReadAt> ReadAt for UnchangedAt<P> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.positions.read_at(buffer, offset)?;
        if let Some((file, unchanged)) = &self.watched {
            unchanged.check(file)?;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    fn read_while(change: impl Fn(&Path)) -> Result<usize, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("source");
        fs::write(&path, [7; 100_000]).expect("room");
        let file = File::open(&path).expect("it is there");
        let unchanged = Unchanged::new(&path, &file.metadata().expect("open"));
        let mut whole = WholeFile::new(Passing::new(file, 0, 100_000), unchanged);
        whole.read_exact(&mut [0; 50_000]).expect("half of it");
        // The kernel's file timestamps advance every few milliseconds only.
        std::thread::sleep(Duration::from_millis(20));
        change(&path);
        whole.read_to_end(&mut Vec::new()).map_err(|error| error.to_string())
    }

    #[test]
    fn whatever_changes_of_a_file_is_told_and_reading_it_changes_nothing() {
        assert_eq!(read_while(|_| {}), Ok(50_000));
        let told = |change: fn(&Path)| read_while(change).expect_err("it changed");
        let same_size = told(|path| fs::write(path, [8; 100_000]).expect("room"));
        assert!(same_size.contains("written to") && same_size.contains("--allow-changing"), "{same_size}");
        assert!(
            told(|path| fs::write(path, [8; 100]).expect("room")).contains("100000 bytes at first, 100 in the end")
        );
        let set_back = told(|path| {
            let before = fs::metadata(path).and_then(|file| file.modified()).expect("a time");
            fs::write(path, [8; 100_000]).expect("room");
            File::options().write(true).open(path).and_then(|file| file.set_modified(before)).expect("ours");
        });
        assert!(set_back.contains("ctime"), "{set_back}");
        assert!(told(|path| fs::remove_file(path).expect("ours")).contains("ctime"));
        let replaced = told(|path| {
            fs::hard_link(path, path.with_extension("old")).expect("room");
            fs::write(path.with_extension("new"), [8; 100_000]).expect("room");
            fs::rename(path.with_extension("new"), path).expect("ours");
        });
        assert!(replaced.contains("changed while it was sent"), "{replaced}");
    }
}
