//! Exit codes, and how failures become them.

use crate::doctor::Fault;
use ethbcast_collectives::ErrorKind;
use serde_json::{Value, json};
use std::fmt;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// Whether stdout has had a report: who reads JSON there gets one object, of the outcome or of the failure.
static HAS_REPORTED: AtomicBool = AtomicBool::new(false);

/// How a run can end badly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Some receivers failed.
    SomeFailed,
    /// Usage, malformed or contradictory input.
    Usage,
    /// Nobody there, timed out, or the group is another sender's.
    Nobody,
    /// System or permission: interface, capability, SOURCE, DEST.
    System,
    /// The bytes are not the root's.
    Integrity,
    /// Interrupted from the keyboard.
    Interrupted,
    /// Asked to terminate.
    Terminated,
    /// That of the command that took what was received, which failed.
    Command(u8),
}

impl Code {
    /// The process's exit code.
    fn number(self) -> u8 {
        match self {
            Code::SomeFailed => 1,
            Code::Usage => 2,
            Code::Nobody => 3,
            Code::System => 4,
            Code::Integrity => 5,
            Code::Interrupted => 130,
            Code::Terminated => 143,
            Code::Command(code) => code,
        }
    }
}

impl From<ErrorKind> for Code {
    fn from(kind: ErrorKind) -> Code {
        match kind {
            ErrorKind::SomeFailed | ErrorKind::Gone | ErrorKind::TooLong => Code::SomeFailed,
            ErrorKind::Usage | ErrorKind::Mismatch => Code::Usage,
            ErrorKind::Nobody => Code::Nobody,
            ErrorKind::Integrity => Code::Integrity,
            _ => Code::System,
        }
    }
}

/// A failure with its exit code and one sentence that says what to do.
#[derive(Debug, Error)]
#[error("{text}")]
pub struct Failure {
    code: Code,
    text: String,
    fault: Option<Fault>,
}

impl Failure {
    /// A failure of the given kind.
    pub fn new(code: Code, text: impl fmt::Display) -> Failure {
        Failure { code, text: text.to_string(), fault: None }
    }

    /// The same, as this fault, if it is one: its code is printed behind the sentence.
    pub fn found(self, fault: impl Into<Option<Fault>>) -> Failure {
        Failure { fault: fault.into(), ..self }
    }

    /// Which fault it is, if it is one that `ethbcast explain` knows.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// The exit code.
    pub fn code(&self) -> Code {
        self.code
    }
}

/// The [`Failure`] of the given kind as a result.
///
/// # Errors
/// Always.
pub fn fail<T>(code: Code, text: impl fmt::Display) -> anyhow::Result<T> {
    Err(Failure::new(code, text).into())
}

/// Gives an error of a library its exit code.
pub trait WithCode<T> {
    /// The value, or a [`Failure`] of this kind with the error's own words.
    fn code(self, code: Code) -> anyhow::Result<T>;
}

impl<T, E: fmt::Display> WithCode<T> for Result<T, E> {
    fn code(self, code: Code) -> anyhow::Result<T> {
        self.map_err(|error| Failure::new(code, error).into())
    }
}

/// Prints (a part of) the final report, a line or several, on stdout.
///
/// # Errors
/// A [`Failure`] with code 4 if stdout does not take it.
pub fn report(text: &str) -> anyhow::Result<()> {
    HAS_REPORTED.store(true, Ordering::Relaxed);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| {
        Failure::new(Code::System, format!("cannot write the report to stdout: {error}; the exit code says the rest"))
            .into()
    })
}

/// Prints a line on stderr; if nobody reads it any more, that changes nothing.
pub fn say(text: impl fmt::Display) {
    // One write for the whole line: those of other processes on this terminal go before it or behind it.
    drop(std::io::stderr().write_all(format!("{text}\n").as_bytes()));
}

/// Prints a failure on stderr and turns it into the process's exit code; what has no code of its own is a system
/// failure. With `as_json` it is also an object on stdout, unless that has had a report.
pub fn finish(result: anyhow::Result<()>, as_json: bool) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let failure = error.downcast_ref::<Failure>();
    let code = failure.map_or(Code::System, Failure::code);
    let fault = failure.and_then(Failure::fault).map(|fault| fault.code());
    if as_json && !HAS_REPORTED.load(Ordering::Relaxed) {
        drop(report(&failure_json(&format!("{error:#}"), code, fault.as_deref()).to_string()));
    }
    let found = fault.map_or_else(String::new, |fault| format!(" [{fault}]"));
    say(format_args!("ethbcast: {error:#}{found}"));
    ExitCode::from(code.number())
}

/// A failure for programs; `fault` is what `ethbcast explain` knows it by.
fn failure_json(text: &str, code: Code, fault: Option<&str>) -> Value {
    json!({ "schema": 1, "error": text, "finding": fault, "exit_code": code.number() })
}
