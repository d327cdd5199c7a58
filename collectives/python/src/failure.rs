//! Conversion of Python's keyword arguments to the library's options, and of its errors to the
//! Python exception `ethbcast.Error`.

use ethbcast_collectives::communicator::{self, CommunicatorError};
use ethbcast_collectives::session::{MemberReport, RootFailure, TurnedAway};
use ethbcast_collectives::{ErrorKind, NamedOptions, OptionError, session};
use ethbcast_content::dest::DestError;
use ethbcast_content::source::SourceError;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyTuple};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;

/// A failure on its way to the caller: its kind, one sentence that says what to do, and each host
/// that failed, with the reason.
#[derive(Debug)]
pub struct Failure {
    kind: ErrorKind,
    text: String,
    failed: Vec<(String, String)>,
}

impl Failure {
    pub fn new(kind: ErrorKind, text: impl Display) -> Failure {
        Failure {
            kind,
            text: text.to_string(),
            failed: Vec::new(),
        }
    }

    pub fn usage(text: impl Display) -> Failure {
        Failure::new(ErrorKind::Usage, text)
    }
}

/// Returns how a caller writes an option.
pub fn option(name: &str) -> String {
    match name {
        "force" => "replace=True".to_owned(),
        "group" => "group=".to_owned(),
        _ if NamedOptions::names().any(|known| known == name) => {
            format!("{}=", name.replace('-', "_"))
        }
        _ => format!("the program's --{name}"),
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        let raise = |py: Python<'_>| {
            let class = py.import("ethbcast._errors")?.getattr("Error")?;
            let failed: BTreeMap<String, String> = failure.failed.into_iter().collect();
            class
                .call1((failure.kind.code(), failure.text, failed))
                .map(PyErr::from_value)
        };
        Python::attach(raise).unwrap_or_else(|error| error)
    }
}

impl From<OptionError> for Failure {
    fn from(error: OptionError) -> Failure {
        Failure::usage(error)
    }
}

impl From<communicator::Error> for Failure {
    fn from(error: communicator::Error) -> Failure {
        let failed = lost(&error)
            .into_iter()
            .map(|host| (host, error.to_string()))
            .collect();
        Failure {
            failed,
            ..Failure::new(error.kind(), error)
        }
    }
}

fn lost(error: &communicator::Error) -> Vec<String> {
    let communicator::Error::Call(error) = error else {
        return Vec::new();
    };
    match error {
        CommunicatorError::Gone(one)
        | CommunicatorError::Left(one)
        | CommunicatorError::Deaf(one) => {
            vec![one.host.clone()]
        }
        CommunicatorError::Cut(one, other) => vec![one.host.clone(), other.host.clone()],
        CommunicatorError::TimedOut { missing_ranks, .. }
        | CommunicatorError::Unshrunk { missing_ranks } => {
            missing_ranks.iter().map(|one| one.host.clone()).collect()
        }
        CommunicatorError::Abandoned { rank, .. } => vec![rank.host.clone()],
        CommunicatorError::Unconfirmed { hosts, .. } => hosts.clone(),
        _ => Vec::new(),
    }
}

fn fate(one: &MemberReport) -> (String, String) {
    let (word, text) = one.outcome.status_and_reason(&one.text);
    (
        one.host.clone(),
        if text.is_empty() { word } else { text }.to_owned(),
    )
}

/// Returns the hosts that a sender waited for in vain, and those that it refused.
fn absent(missing: &[String], refused: &[TurnedAway]) -> Vec<(String, String)> {
    let missing = missing
        .iter()
        .map(|host| (host.clone(), "it did not join".to_owned()));
    missing
        .chain(
            refused
                .iter()
                .map(|one| (one.host.clone(), one.text.clone())),
        )
        .collect()
}

impl From<session::Error> for Failure {
    fn from(error: session::Error) -> Failure {
        match error {
            session::Error::ForWhom => Failure::usage(
                "a sender must know which receivers to wait for: pass receivers=3, say, or hosts=\"n[1-3]\"",
            ),
            error => {
                let failed = match &error {
                    session::Error::Undelivered(report) => report.failed().map(fate).collect(),
                    session::Error::NotStarted(RootFailure::TooFew {
                        missing, refused, ..
                    }) => absent(missing, refused),
                    _ => Vec::new(),
                };
                Failure {
                    failed,
                    ..Failure::new(error.kind(), error)
                }
            }
        }
    }
}

impl From<DestError> for Failure {
    fn from(error: DestError) -> Failure {
        Failure::new(ErrorKind::System, error)
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Failure {
        Failure::new(ErrorKind::System, error)
    }
}

/// Reads a call's keyword arguments; `None` stands for the library's default.
///
/// # Errors
/// If there is no such option, or its value is invalid.
pub fn named(given: Option<&Bound<'_, PyDict>>) -> PyResult<NamedOptions> {
    let mut options = NamedOptions::default();
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        let Some(option) = NamedOptions::names().find(|option| in_python(option) == name) else {
            let known: Vec<String> = NamedOptions::names().map(in_python).collect();
            let text = format!(
                "there is no argument {name}: use one of {}",
                known.join(", ")
            );
            return Err(PyTypeError::new_err(text));
        };
        if !value.is_none() {
            options
                .set(option, &text(option, &value)?)
                .map_err(Failure::from)?;
        }
    }
    Ok(options)
}

fn in_python(option: &str) -> String {
    option.replace('-', "_")
}

fn text(option: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(flag.is_true().to_string());
    }
    if option == "ether-type" && value.is_instance_of::<PyInt>() {
        return Ok(format!("{:x}", value.extract::<u16>()?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return Ok(value.extract::<Vec<String>>()?.join(","));
    }
    if let Ok(path) = value.extract::<PathBuf>() {
        let unreadable =
            |path| PyTypeError::new_err(format!("{option} is not valid UTF-8: {path:?}"));
        return path.into_os_string().into_string().map_err(unreadable);
    }
    Ok(value.str()?.to_string())
}
