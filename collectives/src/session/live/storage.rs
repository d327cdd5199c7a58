//! Where received bytes are put.

use super::read_again::ReadAt;
use crate::session::ledger::Offered;
use crate::session::{Outcome, Trailer};
use std::io::{self, ErrorKind, Write};

/// Where a [`Writer`](super::Writer) puts the bytes. It is dropped, with whatever is half done, if they do not all
/// come.
pub trait Storage {
    /// The session has begun: what was offered will come.
    ///
    /// # Errors
    /// If there can be no place for it.
    fn begin(&mut self, _offered: &Offered) -> Result<(), StorageError> {
        Ok(())
    }

    /// What was written, at any position and at any time, for other receivers that lack it; none if it is not kept.
    /// Asked for when the session has begun.
    fn kept(&mut self) -> Option<Box<dyn ReadAt>> {
        None
    }

    /// Takes the next bytes, which are the sender's: each chunk of them has been checked.
    ///
    /// # Errors
    /// If they cannot be written.
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError>;

    /// The next bytes, which stand already where they belong: whoever
    /// [holds](crate::session::ledger::Holdings) them has read them from there.
    ///
    /// # Errors
    /// As for [`write`](Storage::write), which it is unless it is told otherwise.
    fn keep(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.write(bytes)
    }

    /// All bytes have been written and are the sender's, which add up to `trailer`: makes them last, and shows them to
    /// nobody.
    ///
    /// # Errors
    /// If that cannot be done, or what is read back is something else.
    fn settle(&mut self, trailer: Trailer) -> Result<(), StorageError>;

    /// Whether settling and publishing wait for a disk, which may take long; if not, who does not come to an end stands
    /// still.
    fn syncs(&self) -> bool {
        true
    }

    /// What is true of it once it is published, and its sender should know; nothing where all is as it was sent.
    fn note(&self) -> String {
        String::new()
    }

    /// What was settled is accepted: shows it, under its name.
    ///
    /// # Errors
    /// If that cannot be done.
    fn publish(&mut self) -> Result<(), StorageError> {
        Ok(())
    }
}

/// Why bytes could not be stored.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct StorageError {
    outcome: Outcome,
    text: String,
    #[source]
    cause: Option<io::Error>,
}

impl StorageError {
    /// A failure that the sender hears of as this outcome, with a sentence that says what to do.
    pub fn new(outcome: Outcome, text: impl Into<String>) -> StorageError {
        StorageError { outcome, text: text.into(), cause: None }
    }

    /// What is at DEST forbids it, and nothing was changed: the sentence says what to do.
    pub fn refused(text: impl std::fmt::Display) -> StorageError {
        StorageError::new(Outcome::WriteFailed, format!("{}: {text}", Outcome::REFUSED))
    }

    /// What the sender hears: the outcome and the sentence; and the system's own error, if that is the cause.
    pub(super) fn into_parts(self) -> (Outcome, String, Option<io::Error>) {
        (self.outcome, self.text, self.cause)
    }

    /// What the system said while `doing` something: the outcome follows from it, and so does the sentence, to which
    /// `help` is added.
    pub fn system(doing: &str, cause: io::Error, help: &str) -> StorageError {
        let outcome = if is_full(&cause) { Outcome::NoSpace } else { Outcome::WriteFailed };
        StorageError { outcome, text: format!("cannot {doing}: {cause}{help}"), cause: Some(cause) }
    }
}

/// Whether there is no room for more.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Whatever takes bytes, as a [`Storage`]: they are in it as they come, chunk by chunk checked, complete or not.
#[derive(Debug)]
pub struct Output<W>(pub W);

impl<W: Write> Storage for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.0.write_all(bytes).map_err(|error| StorageError::system("write", error, ""))
    }

    fn settle(&mut self, _trailer: Trailer) -> Result<(), StorageError> {
        self.0.flush().map_err(|error| StorageError::system("write", error, ""))
    }
}
