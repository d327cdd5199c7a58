//! Errors of consistency checks, which tests run on a state machine after every step.

use std::fmt;
use thiserror::Error;

/// Two counts of one quantity that differ: a bug in the engine itself, which only tests should ever
/// see.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{disagreement}")]
pub struct AuditError {
    disagreement: String,
}

impl AuditError {
    pub fn new(disagreement: impl Into<String>) -> AuditError {
        AuditError { disagreement: disagreement.into() }
    }

    #[must_use]
    pub fn within(self, part: impl fmt::Display) -> AuditError {
        AuditError { disagreement: format!("{part}: {}", self.disagreement) }
    }
}
