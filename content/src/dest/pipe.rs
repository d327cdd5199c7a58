//! A pipe as DEST: stdout or a command. Its bytes cannot be read back.

use super::kind::Kind;
use super::overwriting::ZEROS;
use crate::command::CommandInput;
use crate::trouble;
use ethbcast_collectives::session::live::StorageError;
use ethbcast_collectives::session::{FileAttributes, Outcome};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) enum PipeDest {
    Stdout { out: io::Stdout, is_over: Arc<AtomicBool> },
    Command(CommandInput),
}

impl PipeDest {
    fn flush(&mut self) -> Result<(), StorageError> {
        match self {
            PipeDest::Stdout { out, .. } => out.flush().map_err(|error| trouble("write to stdout", error)),
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
            PipeDest::Stdout { out, .. } => out.write_all(bytes).map_err(|error| trouble("write to stdout", error)),
            PipeDest::Command(command) => command.write_all(bytes).map_err(command_trouble),
        }
    }

    fn keep(&mut self, _bytes: u64) -> Result<(), StorageError> {
        Err(StorageError::new(Outcome::WriteFailed, "a pipe has nothing already"))
    }

    fn skip(&mut self, bytes: u64) -> Result<(), StorageError> {
        let mut left = bytes;
        while left > 0 {
            // A hole may be longer than anybody waits for; a command is ended instead.
            if let PipeDest::Stdout { is_over, .. } = self
                && is_over.load(Ordering::Relaxed)
            {
                return Err(StorageError::new(Outcome::WriteFailed, "the session is over"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_that_nobody_waits_for_is_not_written() {
        let is_over = Arc::new(AtomicBool::new(true));
        let mut pipe = PipeDest::Stdout { out: io::stdout(), is_over };
        assert!(pipe.skip(u64::MAX).is_err_and(|error| error.to_string().contains("over")));
    }
}
