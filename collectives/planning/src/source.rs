//! Parser shared by all input files: reads TOML with a `schema` key, and reports errors by file and
//! line.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt;
use thiserror::Error;
use toml::Spanned;

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
        Self {
            source_name: None,
            line: line.into(),
            problem: Box::new(problem.into()),
        }
    }

    pub(crate) fn nowhere(problem: impl Into<P>) -> Self {
        Self::at(None, problem)
    }

    pub(crate) fn named(self, source_name: &str) -> Self {
        Self {
            source_name: Some(source_name.to_string()),
            ..self
        }
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

impl<P: fmt::Debug + fmt::Display> std::error::Error for SourceError<P> {}

const SCHEMA: i64 = 1;

/// Reason why a text is not TOML of the supported schema.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SchemaProblem {
    /// The text is not TOML, or has unexpected keys or types; the message is the TOML parser's.
    #[error("{0}")]
    Toml(String),
    #[error(
        "expected `schema = {SCHEMA}`, which says how to read this file, but there is no `schema`"
    )]
    NoSchema,
    #[error(
        "expected `schema = {SCHEMA}`, found `schema = {0}`; write the file anew with this version"
    )]
    WrongSchema(String),
}

#[derive(Deserialize)]
struct Head {
    schema: Option<Spanned<toml::Value>>,
}

pub(crate) fn read<T: DeserializeOwned, P: From<SchemaProblem>>(
    text: &str,
) -> Result<T, SourceError<P>> {
    let refuse = |error| refuse_toml(text, &error);
    let head: Head = toml::from_str(text).map_err(refuse)?;
    match head.schema {
        None => Err(SourceError::at(1, SchemaProblem::NoSchema)),
        Some(schema) if schema.get_ref().as_integer() == Some(SCHEMA) => {
            toml::from_str(text).map_err(refuse)
        }
        Some(schema) => {
            let line = LineStarts::of(text).line_at(schema.span().start);
            Err(SourceError::at(
                line,
                SchemaProblem::WrongSchema(schema.get_ref().to_string()),
            ))
        }
    }
}

fn refuse_toml<P: From<SchemaProblem>>(text: &str, error: &toml::de::Error) -> SourceError<P> {
    let line = error
        .span()
        .map(|span| LineStarts::of(text).line_at(span.start));
    SourceError::at(
        line,
        SchemaProblem::Toml(error.message().replace('\n', ", ")),
    )
}

pub(crate) struct LineStarts {
    starts: Vec<usize>,
}

impl LineStarts {
    pub(crate) fn of(text: &str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(offset, _)| offset + 1);
        Self {
            starts: std::iter::once(0).chain(after_breaks).collect(),
        }
    }

    pub(crate) fn line_at(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset)
    }
}
