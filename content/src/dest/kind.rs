//! Common interface of the destinations for a byte stream: file, device and pipe.

use crate::command::CommandInput;
use crate::disk::DiskFile;
use crate::journal::read_all;
use crate::trouble;
use ethbcast_collectives::session::live::{ReadAt, StorageError};
use ethbcast_collectives::session::{FileAttributes, Outcome};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes after which a background sync starts, so that the final one has little left to do.
pub(super) const SYNC_BYTES: u64 = 8 << 20;

pub(super) trait Kind: Send {
    fn limit(&self) -> Option<u64> {
        None
    }

    fn sector_bytes(&self) -> Option<u64> {
        None
    }

    fn syncs(&self) -> bool {
        true
    }

    /// Returns random access to the data while it is written; none if it cannot be read.
    fn handle(&self) -> Option<Box<dyn ReadAt>> {
        None
    }

    /// Whether data that may belong to the content is already there. Its pages are dropped from the
    /// page cache.
    fn has_some(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    fn prologue(&self) -> &[u8] {
        &[]
    }

    fn keep_prologue(&mut self, _bytes: &[u8]) {}

    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError>;

    fn keep(&mut self, bytes: u64) -> Result<(), StorageError>;

    fn skip(&mut self, bytes: u64) -> Result<(), StorageError>;

    fn settle(&mut self, attributes: Option<FileAttributes>) -> Result<(), StorageError>;

    /// Drops the data from the page cache, so that the next read comes from the disk.
    fn forget(&self) -> io::Result<()> {
        Ok(())
    }

    /// Gives the content its final name and syncs that. Returns the path if the name was given,
    /// even after a later failure.
    fn put(&mut self) -> (Option<PathBuf>, Result<(), StorageError>) {
        (None, Ok(()))
    }
}

pub(super) struct Open<F>(pub F);

impl<F: DiskFile> ReadAt for Open<F> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}

/// Path of the data while a file is overwritten, and the hidden file of another user in the place
/// of this run's.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    pub broken: OnceLock<PathBuf>,
    pub foreign: OnceLock<PathBuf>,
}

#[derive(Debug)]
pub(super) struct DiskError {
    pub doing: String,
    pub error: io::Error,
    /// Whether the file has its final name despite the error.
    pub in_place: bool,
}

pub(super) fn at(doing: &str) -> impl FnOnce(io::Error) -> DiskError {
    move |error| DiskError {
        doing: doing.to_owned(),
        error,
        in_place: false,
    }
}

impl From<DiskError> for StorageError {
    fn from(
        DiskError {
            doing,
            error,
            in_place,
        }: DiskError,
    ) -> StorageError {
        if in_place {
            let help = "; the file is in place and whole, but a crash may take its name away: sync the disk, or send \
                        again";
            return StorageError::system(&doing, error, help);
        }
        trouble(&doing, error)
    }
}

pub(super) enum PipeDest {
    Stdout {
        out: io::Stdout,
        is_over: Arc<AtomicBool>,
    },
    Command(CommandInput),
}

impl PipeDest {
    fn flush(&mut self) -> Result<(), StorageError> {
        match self {
            PipeDest::Stdout { out, .. } => out
                .flush()
                .map_err(|error| trouble("write to stdout", error)),
            PipeDest::Command(command) => command.finish().map_err(command_trouble),
        }
    }
}

impl Kind for PipeDest {
    fn syncs(&self) -> bool {
        matches!(self, PipeDest::Command(_))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        match self {
            PipeDest::Stdout { out, .. } => out
                .write_all(bytes)
                .map_err(|error| trouble("write to stdout", error)),
            PipeDest::Command(command) => command.write_all(bytes).map_err(command_trouble),
        }
    }

    fn keep(&mut self, _bytes: u64) -> Result<(), StorageError> {
        Err(StorageError::new(
            Outcome::WriteFailed,
            "a pipe has nothing already",
        ))
    }

    fn skip(&mut self, bytes: u64) -> Result<(), StorageError> {
        let mut left = bytes;
        while left > 0 {
            // A hole may take longer than a user waits; a command is ended instead.
            if let PipeDest::Stdout { is_over, .. } = self
                && is_over.load(Ordering::Relaxed)
            {
                return Err(StorageError::new(
                    Outcome::WriteFailed,
                    "the session is over",
                ));
            }
            let count = left.min(ZEROS.len() as u64);
            self.write(&ZEROS[..count as usize])?;
            left -= count;
        }
        Ok(())
    }

    fn settle(&mut self, _attributes: Option<FileAttributes>) -> Result<(), StorageError> {
        self.flush()
    }
}

fn command_trouble(error: io::Error) -> StorageError {
    StorageError::new(Outcome::WriteFailed, error.to_string())
}

pub(super) const PIECE_BYTES: usize = 64 << 10;
pub(super) static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];

/// Comparison with existing data. After a long run of differences only one piece in 16 is read,
/// because reading costs too.
#[derive(Debug, Default)]
pub(super) struct Present {
    buffer: Vec<u8>,
    different: u32,
    pub found_bytes: u64,
}

impl Present {
    const DIFFERENT_IN_A_ROW: u32 = 64;
    const THEN_ONE_IN: u64 = 16;

    /// Writes the pieces of `bytes` that differ at `offset`. `before` is called before each write.
    pub(super) fn write<F: DiskFile>(
        &mut self,
        file: &F,
        offset: u64,
        bytes: &[u8],
        mut before: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut write = |from: usize, to: usize| match &bytes[from..to] {
            [] => Ok(()),
            part => before().and_then(|()| file.write_all_at(part, offset + from as u64)),
        };
        let (mut unwritten, mut at) = (0, 0);
        while at < bytes.len() {
            let begin = offset + at as u64;
            let to_border = PIECE_BYTES - (begin % PIECE_BYTES as u64) as usize;
            let end = bytes.len().min(at + to_border);
            if self.is(file, begin, &bytes[at..end]) {
                write(unwritten, at)?;
                self.found_bytes += (end - at) as u64;
                unwritten = end;
            }
            at = end;
        }
        write(unwritten, at)
    }

    fn is<F: DiskFile>(&mut self, file: &F, offset: u64, bytes: &[u8]) -> bool {
        let number = offset / PIECE_BYTES as u64;
        if self.different >= Present::DIFFERENT_IN_A_ROW
            && !number.is_multiple_of(Present::THEN_ONE_IN)
        {
            return false;
        }
        self.buffer.resize(bytes.len(), 0);
        let is_same = read_all(file, &mut self.buffer, offset)
            .is_ok_and(|read| read == bytes.len())
            && self.buffer == bytes;
        self.different = if is_same {
            0
        } else {
            self.different.saturating_add(1)
        };
        is_same
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_hole_that_nobody_waits_for_is_not_written() {
        let is_over = Arc::new(AtomicBool::new(true));
        let mut pipe = PipeDest::Stdout {
            out: io::stdout(),
            is_over,
        };
        assert!(
            pipe.skip(u64::MAX)
                .is_err_and(|error| error.to_string().contains("over"))
        );
    }

    #[test]
    fn a_pipe_that_is_closed_after_any_piece_is_never_taken_for_whole() {
        let (pieces, bytes) = (4, 4 * PIECE_BYTES);
        for taken in (0..=2 * bytes).step_by(PIECE_BYTES / 2) {
            let command = format!("head -c {taken} > /dev/null; cat > /dev/null || true");
            let reads_all =
                CommandInput::start(&command, "image", Arc::default()).expect("a shell");
            let stops = format!("head -c {taken} > /dev/null");
            let stops = CommandInput::start(&stops, "image", Arc::default()).expect("a shell");
            for (input, is_whole) in [(reads_all, true), (stops, taken >= 2 * bytes)] {
                let mut pipe = PipeDest::Command(input);
                assert!(
                    pipe.keep(1).is_err() && pipe.handle().is_none(),
                    "nothing is there before"
                );
                let written = (0..pieces)
                    .try_for_each(|_| pipe.write(&ZEROS))
                    .and_then(|()| pipe.skip(bytes as u64));
                let settled = written.and_then(|()| pipe.settle(None));
                assert_eq!(
                    settled.is_ok(),
                    is_whole,
                    "{taken} of {}: {settled:?}",
                    2 * bytes
                );
                assert!(matches!(pipe.put(), (None, Ok(()))), "it gets no name");
            }
        }
    }

    fn file(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(bytes, 0).expect("room");
        file
    }

    fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
        (0..bytes).map(|at| (at / 100) as u8 ^ seed).collect()
    }

    #[test]
    fn only_pieces_that_differ_are_written() {
        let old = pattern(40 * PIECE_BYTES, 1);
        let mut new = old.clone();
        new[3 * PIECE_BYTES + 5] ^= 1;
        new[20 * PIECE_BYTES..22 * PIECE_BYTES].fill(9);
        let (file, mut present, mut at, mut writes) = (file(&old), Present::default(), 0, 0);
        // Pieces that are not aligned with those of the comparison.
        for bytes in new.chunks(1_000_003) {
            let before = || {
                writes += 1;
                Ok(())
            };
            present.write(&file, at, bytes, before).expect("room");
            at += bytes.len() as u64;
        }
        let mut found = vec![0; new.len()];
        read_all(&file, &mut found, 0).expect("so many");
        assert!(found == new);
        assert_eq!((present.found_bytes, writes), (37 * PIECE_BYTES as u64, 2));
    }

    #[test]
    fn an_image_that_is_all_new_is_soon_not_compared_any_more_and_one_that_is_old_again_is() {
        let mut present = Present::default();
        let old = file(&pattern(200 * PIECE_BYTES, 1));
        let other = pattern(PIECE_BYTES, 77);
        let mut same =
            |number: u64, bytes: &[u8]| present.is(&old, number * PIECE_BYTES as u64, bytes);
        assert!((0..64).all(|number| !same(number, &other)));
        let mut own = vec![0; PIECE_BYTES];
        read_all(&old, &mut own, 65 * PIECE_BYTES as u64).expect("so many");
        assert!(!same(65, &own), "it is not looked at");
        read_all(&old, &mut own, 80 * PIECE_BYTES as u64).expect("so many");
        assert!(
            same(80, &own) && !same(81, &other),
            "one in sixteen is, and then all are"
        );
    }
}
