//! An error with its position in a file.

use std::error::Error;
use std::fmt;

/// A problem with data that may have been read from a file, and its position. Displayed as
/// `cluster.toml:4: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceError<P> {
    /// File or other source, if the problem is in a text.
    pub source_name: Option<String>,
    /// Line in that source, counted from 1, if the problem has one.
    pub line: Option<usize>,
    /// The problem.
    pub problem: Box<P>,
}

impl<P> SourceError<P> {
    pub(crate) fn at(line: impl Into<Option<usize>>, problem: impl Into<P>) -> Self {
        Self { source_name: None, line: line.into(), problem: Box::new(problem.into()) }
    }

    pub(crate) fn nowhere(problem: impl Into<P>) -> Self {
        Self::at(None, problem)
    }

    pub(crate) fn named(self, source_name: &str) -> Self {
        Self { source_name: Some(source_name.to_string()), ..self }
    }
}

impl<P: fmt::Display> fmt::Display for SourceError<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.source_name, self.line) {
            (Some(source), Some(line)) => write!(formatter, "{source}:{line}: ")?,
            (Some(source), None) => write!(formatter, "{source}: ")?,
            (None, Some(line)) => write!(formatter, "line {line}: ")?,
            (None, None) => {}
        }
        self.problem.fmt(formatter)
    }
}

impl<P: fmt::Debug + fmt::Display> Error for SourceError<P> {}
