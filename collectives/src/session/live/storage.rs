//! Destination of received bytes.

use super::read_again::ReadAt;
use crate::session::verified::Offered;
use crate::session::{Outcome, Trailer};
use std::io::{self, ErrorKind, Write};

/// Destination of the bytes of a [`Writer`](super::Writer). If they do not all come, it is dropped
/// together with the partial data.
pub trait Storage {
    /// Begins: the offered content will come.
    ///
    /// # Errors
    /// If there can be no place for it.
    fn begin(&mut self, _offered: &Offered) -> Result<(), StorageError> {
        Ok(())
    }

    /// Returns access to all written bytes for other receivers that lack them; `None` if they are
    /// not kept. Called when the session has begun.
    fn kept(&mut self) -> Option<Box<dyn ReadAt>> {
        None
    }

    /// Takes the next bytes, of which each chunk is verified.
    ///
    /// # Errors
    /// If they cannot be written.
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError>;

    /// Takes the next bytes, which are in place already:
    /// [`HaveSet`](crate::session::verified::HaveSet) has read them from there.
    ///
    /// # Errors
    /// As for [`write`](Storage::write), which is the default.
    fn keep(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.write(bytes)
    }

    /// Makes the bytes durable without making them visible. All have been written and verified,
    /// with the length and digest of `trailer`.
    ///
    /// # Errors
    /// If that is impossible, or the bytes differ when read back.
    fn settle(&mut self, trailer: Trailer) -> Result<(), StorageError>;

    /// Whether settling and publishing wait for a disk, which may take long; if not, a receiver
    /// that does not finish counts as stalled.
    fn syncs(&self) -> bool {
        true
    }

    /// Returns a note for the sender once the content is published; empty if there is none.
    fn note(&self) -> String {
        String::new()
    }

    /// Makes the settled content visible under its name, after the root has accepted it.
    ///
    /// # Errors
    /// If that is impossible.
    fn publish(&mut self) -> Result<(), StorageError> {
        Ok(())
    }
}

/// Reason why bytes could not be stored.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct StorageError {
    outcome: Outcome,
    text: String,
    #[source]
    cause: Option<io::Error>,
}

impl StorageError {
    /// Creates a failure with the outcome that is reported to the sender, and a sentence that says
    /// what to do.
    pub fn new(outcome: Outcome, text: impl Into<String>) -> StorageError {
        StorageError { outcome, text: text.into(), cause: None }
    }

    /// Refuses because of what is at DEST; nothing was changed. `text` says what to do.
    pub fn refused(text: impl std::fmt::Display) -> StorageError {
        StorageError::new(Outcome::WriteFailed, format!("{}: {text}", Outcome::REFUSED))
    }

    pub(super) fn into_parts(self) -> (Outcome, String, Option<io::Error>) {
        (self.outcome, self.text, self.cause)
    }

    /// Creates a failure from a system error while `doing` something; it determines the outcome and
    /// the sentence, to which `help` is appended.
    pub fn system(doing: &str, cause: io::Error, help: &str) -> StorageError {
        let outcome = if is_full(&cause) { Outcome::NoSpace } else { Outcome::WriteFailed };
        StorageError { outcome, text: format!("cannot {doing}: {cause}{help}"), cause: Some(cause) }
    }
}

/// Whether the error means that there is no space left.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// A [`Storage`] that writes to any writer. Bytes are written as they come, verified by chunk,
/// complete or not.
#[derive(Debug)]
pub struct Output<W>(pub W);

/// Memory of a fixed length as a storage.
#[derive(Debug)]
pub struct Room<'a> {
    memory: &'a mut [u8],
    filled: usize,
}

impl<'a> Room<'a> {
    /// Creates a storage that fills `memory` from its beginning.
    pub fn of(memory: &'a mut [u8]) -> Room<'a> {
        Room { memory, filled: 0 }
    }
}

impl Storage for Room<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let (room, end) = (self.memory.len(), self.filled + bytes.len());
        let Some(place) = self.memory.get_mut(self.filled..end) else {
            let text = format!("the buffer has {room} bytes, and at least {end} come: pass a longer one");
            return Err(StorageError::new(Outcome::NoSpace, text));
        };
        place.copy_from_slice(bytes);
        self.filled = end;
        Ok(())
    }

    fn settle(&mut self, _trailer: Trailer) -> Result<(), StorageError> {
        Ok(())
    }

    fn syncs(&self) -> bool {
        false
    }
}

impl<W: Write> Storage for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.0.write_all(bytes).map_err(|error| StorageError::system("write", error, ""))
    }

    fn settle(&mut self, _trailer: Trailer) -> Result<(), StorageError> {
        self.0.flush().map_err(|error| StorageError::system("write", error, ""))
    }
}
