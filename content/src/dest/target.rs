//! Where bytes and holes are put, one after the other.

use super::medium::Medium;
use super::part_file::{DiskError, PartFile, SettledFile};
use crate::command::CommandInput;
use crate::trouble;
use ethbcast_collectives::session::live::StorageError;
use ethbcast_collectives::session::{FileAttributes, Outcome};
use std::io::{self, Write};
use std::path::PathBuf;

/// What becomes one hole where zeros are to be holes, in bytes: smaller ones cost more than they save.
const HOLE_BYTES: usize = 64 << 10;
static ZEROS: [u8; HOLE_BYTES] = [0; HOLE_BYTES];

/// DEST, being written.
pub(super) enum Target {
    Stdout(io::Stdout),
    Command(CommandInput),
    Writing { part: PartFile<Medium>, path: PathBuf, replace: bool },
    Settled { file: SettledFile<Medium>, path: PathBuf, replace: bool },
}

impl Target {
    /// Puts bytes behind what is there.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        match self {
            Target::Stdout(out) => out.write_all(bytes).map_err(|error| trouble("write to stdout", error)),
            Target::Command(command) => command.write_all(bytes).map_err(command_trouble),
            Target::Writing { part, .. } => part.write_all(bytes).map_err(disk_trouble),
            Target::Settled { .. } => panic!("nothing comes after the end"),
        }
    }

    /// Leaves a hole; what has none gets zeros.
    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), StorageError> {
        if let Target::Writing { part, .. } = self {
            return part.skip(bytes).map_err(disk_trouble);
        }
        let mut left = bytes;
        while left > 0 {
            let count = left.min(HOLE_BYTES as u64);
            self.write(&ZEROS[..count as usize])?;
            left -= count;
        }
        Ok(())
    }

    /// Puts bytes behind what is there, `at` bytes, and makes holes of zeros.
    pub(super) fn write_sparsely(&mut self, at: u64, bytes: &[u8]) -> Result<(), StorageError> {
        let (mut begin, mut end, mut was_hole) = (0, 0, false);
        while end < bytes.len() {
            let to_border = HOLE_BYTES - ((at + end as u64) % HOLE_BYTES as u64) as usize;
            let next = bytes.len().min(end + to_border);
            let is_hole = next - end == HOLE_BYTES && bytes[end..next] == ZEROS;
            if is_hole != was_hole {
                self.put(&bytes[begin..end], was_hole)?;
                (begin, was_hole) = (end, is_hole);
            }
            end = next;
        }
        self.put(&bytes[begin..], was_hole)
    }

    fn put(&mut self, bytes: &[u8], is_hole: bool) -> Result<(), StorageError> {
        match bytes.len() {
            0 => Ok(()),
            count if is_hole => self.skip(count as u64),
            _ => self.write(bytes),
        }
    }

    /// That was all: makes it last, a file with these attributes, and shows it to nobody.
    pub(super) fn settle(self, attributes: Option<FileAttributes>) -> Result<Target, StorageError> {
        Ok(match self {
            Target::Stdout(mut out) => {
                out.flush().map_err(|error| trouble("write to stdout", error))?;
                Target::Stdout(out)
            }
            Target::Command(mut command) => {
                command.finish().map_err(command_trouble)?;
                Target::Command(command)
            }
            Target::Writing { part, path, replace } => {
                Target::Settled { file: part.settle(attributes).map_err(disk_trouble)?, path, replace }
            }
            settled @ Target::Settled { .. } => settled,
        })
    }

    /// Gives what is settled its name, and says which, if it has one; that may be so also when it fails.
    pub(super) fn publish(self) -> (Option<PathBuf>, Result<(), StorageError>) {
        let Target::Settled { file, path, replace } = self else { return (None, Ok(())) };
        let published = file.publish(&path, replace);
        let is_there = published.as_ref().err().is_none_or(|failed| failed.in_place);
        (is_there.then_some(path), published.map_err(disk_trouble))
    }
}

/// What a command came to, in words that need no others.
fn command_trouble(error: io::Error) -> StorageError {
    StorageError::new(Outcome::WriteFailed, error.to_string())
}

/// What went wrong at a file, with what is true of it and what to do.
pub(super) fn disk_trouble(failed: DiskError) -> StorageError {
    if failed.in_place {
        let help = "; the file is in place and whole, but a crash may take its name away: sync the disk, or send again";
        return StorageError::system(&failed.doing, failed.error, help);
    }
    trouble(&failed.doing, failed.error)
}
