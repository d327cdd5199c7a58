//! Page-cache advice: a small file is soon read again, while a large one would evict everything
//! else.

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use std::fs::File;
use std::io::{self, Read};

/// Size above which the pages behind the current position are dropped from the page cache.
pub const LARGE_BYTES: u64 = 1 << 30;
/// Bytes behind the read position that stay cached for receivers that need a retransmission, and
/// are then dropped at once.
const BEHIND_BYTES: u64 = 64 << 20;

/// Drops a file's clean pages from the page cache.
pub fn forget(file: &File) {
    advise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
}

fn advise(file: &File, offset: u64, bytes: u64, advice: PosixFadviseAdvice) {
    // Only advice: errors are ignored.
    posix_fadvise(file, offset as _, bytes as _, advice).ok();
}

/// A file that is read sequentially to its end.
#[derive(Debug)]
pub struct Passing {
    file: File,
    is_large: bool,
    at: u64,
    forgotten: u64,
}

impl Passing {
    /// Reads a file of `bytes` bytes from position `at` on.
    pub fn new(file: File, at: u64, bytes: u64) -> Passing {
        advise(&file, at, 0, PosixFadviseAdvice::POSIX_FADV_SEQUENTIAL);
        Passing { file, is_large: bytes > LARGE_BYTES, at, forgotten: at }
    }

    /// Returns the file.
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
