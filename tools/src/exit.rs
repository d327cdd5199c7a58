//! Exit codes, and how failures become them.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;
use thiserror::Error;

/// How a run can end badly. The number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Some receivers failed.
    SomeFailed = 1,
    /// Usage, malformed or contradictory input.
    Usage = 2,
    /// Nobody there, timed out, or the group is another sender's.
    Nobody = 3,
    /// System or permission: interface, capability, SOURCE, DEST.
    System = 4,
    /// The bytes are not the root's.
    Integrity = 5,
    /// Interrupted from the keyboard.
    Interrupted = 130,
    /// Asked to terminate.
    Terminated = 143,
}

/// A failure with its exit code and one sentence that says what to do.
#[derive(Debug, Error)]
#[error("{text}")]
pub struct Failure {
    code: Code,
    text: String,
}

impl Failure {
    /// A failure of the given kind.
    pub fn new(code: Code, text: impl fmt::Display) -> Failure {
        Failure { code, text: text.to_string() }
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
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| {
        Failure::new(Code::System, format!("cannot write the report to stdout: {error}; the exit code says the rest"))
            .into()
    })
}

/// Prints a line on stderr; if nobody reads it any more, that changes nothing.
pub fn say(text: impl fmt::Display) {
    drop(writeln!(std::io::stderr(), "{text}"));
}

/// Prints a failure on stderr and turns it into the process's exit code; what has no code of its own is a system
/// failure.
pub fn finish(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let code = error.downcast_ref::<Failure>().map_or(Code::System, Failure::code);
    say(format_args!("ethbcast: {error:#}"));
    ExitCode::from(code as u8)
}
