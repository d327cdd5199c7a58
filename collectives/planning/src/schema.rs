//! Reading TOML with a `schema`: the part that topologies, calibrations and saved plans share.

use crate::source_error::SourceError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use toml::Spanned;

/// The only schema there is.
const SCHEMA: i64 = 1;

/// Why a text is not TOML of the schema this program reads.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SchemaProblem {
    /// Not TOML, or not the keys and types expected; the text is the TOML parser's.
    #[error("{0}")]
    Toml(String),
    /// No `schema` key.
    #[error("expected `schema = {SCHEMA}`, which says how to read this file, but there is no `schema`")]
    NoSchema,
    /// A `schema` other than 1.
    #[error("expected `schema = {SCHEMA}`, found `schema = {0}`; write the file anew with this version")]
    WrongSchema(String),
}

/// Only what must be known before the rest can be read: another schema may have other keys.
#[derive(Deserialize)]
struct Head {
    schema: Option<Spanned<toml::Value>>,
}

/// Reads a text of schema 1, or says in which line it is not one.
pub(crate) fn read<T: DeserializeOwned, P: From<SchemaProblem>>(text: &str) -> Result<T, SourceError<P>> {
    let refuse = |error| refuse_toml(text, &error);
    let head: Head = toml::from_str(text).map_err(refuse)?;
    match head.schema {
        None => Err(SourceError::at(1, SchemaProblem::NoSchema)),
        Some(schema) if schema.get_ref().as_integer() == Some(SCHEMA) => toml::from_str(text).map_err(refuse),
        Some(schema) => {
            let line = LineStarts::of(text).line_at(schema.span().start);
            Err(SourceError::at(line, SchemaProblem::WrongSchema(schema.get_ref().to_string())))
        }
    }
}

fn refuse_toml<P: From<SchemaProblem>>(text: &str, error: &toml::de::Error) -> SourceError<P> {
    let line = error.span().map(|span| LineStarts::of(text).line_at(span.start));
    SourceError::at(line, SchemaProblem::Toml(error.message().replace('\n', ", ")))
}

/// Where the lines of a text begin, so that byte offsets can be told as lines.
pub(crate) struct LineStarts {
    starts: Vec<usize>,
}

impl LineStarts {
    /// Looks for all line breaks once; each question is then quick, also in a file of a million lines.
    pub(crate) fn of(text: &str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(offset, _)| offset + 1);
        Self { starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    /// The line, counted from 1, in which the byte at `offset` stands.
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset)
    }
}
