//! Reading TOML with a `schema`: the part that topologies, calibrations and saved plans share.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt;
use thiserror::Error;
use toml::Spanned;

/// The only schema there is.
const SCHEMA: i64 = 1;

/// Why a text is not TOML of the schema this program reads.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
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
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, (Option<usize>, SchemaProblem)> {
    let refuse = |error| refuse_toml(text, &error);
    let head: Head = toml::from_str(text).map_err(refuse)?;
    match head.schema {
        None => Err((Some(1), SchemaProblem::NoSchema)),
        Some(schema) if schema.get_ref().as_integer() == Some(SCHEMA) => toml::from_str(text).map_err(refuse),
        Some(schema) => {
            let line = Lines::of(text).at(schema.span().start);
            Err((Some(line), SchemaProblem::WrongSchema(schema.get_ref().to_string())))
        }
    }
}

fn refuse_toml(text: &str, error: &toml::de::Error) -> (Option<usize>, SchemaProblem) {
    let line = error.span().map(|span| Lines::of(text).at(span.start));
    (line, SchemaProblem::Toml(error.message().replace('\n', ", ")))
}

/// Where the lines of a text begin, so that byte offsets can be told as lines.
pub(crate) struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    /// Looks for all line breaks once; each question is then quick, also in a file of a million lines.
    pub(crate) fn of(text: &str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(offset, _)| offset + 1);
        Self { starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    /// The line, counted from 1, in which the byte at `offset` stands.
    pub(crate) fn at(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset)
    }
}

/// Where something stands, displayed in front of what is wrong with it: `plan.toml:4: `.
pub(crate) struct Place<'a>(pub &'a Option<String>, pub &'a Option<usize>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (Some(source), Some(line)) => write!(formatter, "{source}:{line}: "),
            (Some(source), None) => write!(formatter, "{source}: "),
            (None, Some(line)) => write!(formatter, "line {line}: "),
            (None, None) => Ok(()),
        }
    }
}
