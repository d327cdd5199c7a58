//! Failures of the library as exceptions of `ethbcast.Error`.

use ethbcast_collectives::{ErrorKind, NamedOptions, OptionError, communicator, session};
use ethbcast_content::dest::DestError;
use ethbcast_content::source::SourceError;
use pyo3::prelude::*;
use std::fmt::Display;

/// A failure on its way to the caller: its kind, and one sentence that says what to do.
#[derive(Debug)]
pub struct Failure {
    kind: ErrorKind,
    text: String,
}

impl Failure {
    pub fn new(kind: ErrorKind, text: impl Display) -> Failure {
        // The only option of the program that has another name here.
        let text = text.to_string().replace("--force", "replace=True");
        Failure { kind, text: NamedOptions::reworded(&text, |name| format!("{}=", name.replace('-', "_"))) }
    }

    pub fn usage(text: impl Display) -> Failure {
        Failure::new(ErrorKind::Usage, text)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        let raise = |py: Python<'_>| {
            let class = py.import("ethbcast._errors")?.getattr("Error")?;
            class.call1((failure.kind.code(), failure.text)).map(PyErr::from_value)
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
        Failure::new(error.kind(), error)
    }
}

impl From<session::Error> for Failure {
    fn from(error: session::Error) -> Failure {
        match error {
            session::Error::ForWhom => {
                Failure::usage("a sender has to know for whom to wait: pass receivers=3, say, or hosts=\"n[1-3]\"")
            }
            error => Failure::new(error.kind(), error),
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
