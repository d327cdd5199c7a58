//! What the kernel keeps in memory of files: a small one is soon read again, a large one drives out all others.

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use std::fs::File;
use std::io::{self, Read};

/// A file beyond this is not kept in memory behind the place where it is read or written.
pub const LARGE_BYTES: u64 = 1 << 30;
/// So much of a large file that is read is kept, for those who lack a part of it, and forgotten at once.
const BEHIND_BYTES: u64 = 64 << 20;

/// Has the kernel forget what it keeps of a file; what is not on the disk yet it keeps.
pub fn forget(file: &File) {
    advise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
}

fn advise(file: &File, offset: u64, bytes: u64, advice: PosixFadviseAdvice) {
    // Advice: who cannot take it goes on as before.
    posix_fadvise(file, offset as _, bytes as _, advice).ok();
}

/// A file that is read from its present position to its end.
#[derive(Debug)]
pub struct Passing {
    file: File,
    is_large: bool,
    at: u64,
    forgotten: u64,
}

impl Passing {
    /// Reads a file of so many bytes, whose first to be read is at `at`.
    pub fn new(file: File, at: u64, bytes: u64) -> Passing {
        advise(&file, at, 0, PosixFadviseAdvice::POSIX_FADV_SEQUENTIAL);
        Passing { file, is_large: bytes > LARGE_BYTES, at, forgotten: at }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Read for Passing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.at += count as u64;
        let forgettable = self.at.saturating_sub(self.forgotten);
        if self.is_large && forgettable >= 2 * BEHIND_BYTES {
            advise(&self.file, self.forgotten, BEHIND_BYTES, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
            self.forgotten += BEHIND_BYTES;
        }
        Ok(count)
    }
}
