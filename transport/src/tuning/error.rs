//! What is wrong with a number, and what to write instead.

use std::fmt;
use thiserror::Error;

/// A number that the engine cannot run on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} = {found}: write {instead}")]
pub struct TuningError {
    field: &'static str,
    found: String,
    instead: String,
}

impl TuningError {
    /// The field, as it is written in Rust after `tuning.`.
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// Fails for `field` unless it `holds`.
    pub(super) fn unless(
        holds: bool,
        field: &'static str,
        found: impl fmt::Debug,
        instead: impl fmt::Display,
    ) -> Result<(), TuningError> {
        if holds {
            Ok(())
        } else {
            Err(TuningError { field, found: format!("{found:?}"), instead: instead.to_string() })
        }
    }
}
