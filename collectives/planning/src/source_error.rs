//! An error that says where in which file something is wrong.

use std::error::Error;
use std::fmt;

/// What is wrong with something that may have been read from a file, and where. Displayed as `cluster.toml:4: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceError<P> {
    /// The file or other source, if the problem is in a text.
    pub source_name: Option<String>,
    /// The line in that source, counted from 1, if the problem has one.
    pub line: Option<usize>,
    /// What is wrong.
    pub problem: Box<P>,
}

impl<P> SourceError<P> {
    /// A problem in a line, if it has one, of a source that is still to be named.
    pub(crate) fn at(line: impl Into<Option<usize>>, problem: impl Into<P>) -> Self {
        Self { source_name: None, line: line.into(), problem: Box::new(problem.into()) }
    }

    /// A problem that no line of a source is to blame for.
    pub(crate) fn nowhere(problem: impl Into<P>) -> Self {
        Self::at(None, problem)
    }

    /// The same, in the source of this name.
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
