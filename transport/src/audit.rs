//! What an audit finds.

use std::fmt;
use thiserror::Error;

/// Two counts of the same thing that disagree: a mistake in the engine itself, which only tests should ever see.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{disagreement}")]
pub struct AuditError {
    disagreement: String,
}

impl AuditError {
    /// The sentence that names the disagreement.
    pub fn new(disagreement: impl Into<String>) -> AuditError {
        AuditError { disagreement: disagreement.into() }
    }

    /// The same, found in `part` of something larger.
    #[must_use]
    pub fn within(self, part: impl fmt::Display) -> AuditError {
        AuditError { disagreement: format!("{part}: {}", self.disagreement) }
    }
}
