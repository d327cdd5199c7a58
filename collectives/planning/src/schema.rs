//! Reading of TOML with a `schema` key, shared by topologies, calibrations and saved plans.

use crate::source_error::SourceError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use toml::Spanned;

const SCHEMA: i64 = 1;

/// Reason why a text is not TOML of the supported schema.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SchemaProblem {
    /// The text is not TOML, or has unexpected keys or types; the message is the TOML parser's.
    #[error("{0}")]
    Toml(String),
    /// The `schema` key is missing.
    #[error("expected `schema = {SCHEMA}`, which says how to read this file, but there is no `schema`")]
    NoSchema,
    /// The `schema` is not 1.
    #[error("expected `schema = {SCHEMA}`, found `schema = {0}`; write the file anew with this version")]
    WrongSchema(String),
}

#[derive(Deserialize)]
struct Head {
    schema: Option<Spanned<toml::Value>>,
}

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

pub(crate) struct LineStarts {
    starts: Vec<usize>,
}

impl LineStarts {
    pub(crate) fn of(text: &str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(offset, _)| offset + 1);
        Self { starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    pub(crate) fn line_at(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset)
    }
}
