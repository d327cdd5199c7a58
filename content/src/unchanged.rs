//! A SOURCE that changes while it is sent: part of it would be old and part new, and nothing in the bytes shows it.

use crate::page_cache::Passing;
use ethbcast_collectives::session::live::ReadAt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file as it was when it was opened.
#[derive(Debug)]
pub struct Unchanged {
    path: PathBuf,
    before: Stamp,
}

/// What changes with a file's content, or when another takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// The same, of the file's state: it cannot be set back by hand.
    changed: (i64, i64),
}

impl Stamp {
    /// A file as it is.
    pub fn of(file: &Metadata) -> Stamp {
        Stamp {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }

    /// What of the file is another.
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
    /// From this moment on.
    pub fn new(path: &Path, opened: &Metadata) -> Unchanged {
        Unchanged { path: path.to_owned(), before: Stamp::of(opened) }
    }

    /// Whether the open file, and what is under its name, are still what they were.
    ///
    /// # Errors
    /// What has changed, in words.
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

/// All bytes of a file, whose end is told only if it has not changed.
#[derive(Debug)]
pub struct WholeFile {
    file: Passing,
    unchanged: Unchanged,
}

impl WholeFile {
    /// Reads `file`, which is to stay as it was.
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

/// Any bytes of a file, which are told only if it has not changed: what was said of them before it did, their digest,
/// would not be theirs, and who gets them would blame the network.
#[derive(Debug)]
pub struct UnchangedAt<P> {
    positions: P,
    watched: Option<(File, Unchanged)>,
}

impl<P> UnchangedAt<P> {
    /// What `positions` reads of a file, which is to stay as it was if it is watched.
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

    /// What reading a file to its end says when `change` was made in the middle.
    fn read_while(change: impl Fn(&Path)) -> Result<usize, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("source");
        fs::write(&path, [7; 100_000]).expect("room");
        let file = File::open(&path).expect("it is there");
        let unchanged = Unchanged::new(&path, &file.metadata().expect("open"));
        let mut whole = WholeFile::new(Passing::new(file, 0, 100_000), unchanged);
        whole.read_exact(&mut [0; 50_000]).expect("half of it");
        // The kernel's clock for files ticks every few milliseconds.
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
