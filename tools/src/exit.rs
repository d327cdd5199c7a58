//! Exit codes, and how failures become them.

use crate::doctor::Fault;
use crate::event;
use ethbcast_collectives::ErrorKind;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// Whether stdout has had a report: who reads JSON there gets one object, of the outcome or of the failure.
static HAS_REPORTED: AtomicBool = AtomicBool::new(false);

/// What programs read on stdout, if they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Lines, which are for people.
    Lines,
    /// One object, at the end.
    Object,
    /// An object for each thing that happens; the last has that of the end.
    Stream,
}

/// What exit codes mean, for the help and the manual.
pub const CODES: [(&str, &str); 8] = [
    ("0", "All receivers have verified everything."),
    ("1", "Some receivers failed; each is named with its reason. With doctor: something is wrong."),
    ("2", "Usage, or input that is malformed or contradicts itself."),
    ("3", "Nobody was there, the time was up, or the group is another sender's."),
    ("4", "The system or a permission: interface, capability, SOURCE, DEST."),
    ("5", "The bytes are not those of the sender."),
    ("130, 143", "Interrupted, or asked to terminate."),
    ("other", "With recv --pipe, the command's own code."),
];

/// The same as lines.
pub fn codes() -> String {
    let lines: Vec<String> = CODES.iter().map(|(code, says)| format!("  {code:<9} {says}")).collect();
    format!("Exit codes:\n{}", lines.join("\n"))
}

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
#[derive(Clone, Debug, Error)]
#[error("{text}")]
pub struct Failure {
    code: Code,
    text: String,
    fault: Option<Fault>,
}

impl Form {
    /// What a command line asks for that may not be one.
    pub fn asked_for(arguments: &[OsString]) -> Form {
        let options = arguments.iter().take_while(|word| *word != "--");
        let is_there = |wanted: &str| options.clone().any(|word| word == wanted);
        match (is_there("--json-stream"), is_there("--json")) {
            // Whoever reads data there is not to take an object for some.
            _ if arguments.get(1).is_some_and(|command| command == "recv")
                && arguments.iter().any(|word| word == "-") =>
            {
                Form::Lines
            }
            (true, _) => Form::Stream,
            (false, true) => Form::Object,
            (false, false) => Form::Lines,
        }
    }
}

impl Failure {
    /// The same, of an option's value.
    pub fn of_option(self, option: &str) -> Failure {
        Failure { text: format!("{option}: {}", self.text), ..self }
    }

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

    /// The failure for programs.
    pub fn to_json(&self) -> Value {
        let finding = self.fault.map(Fault::code);
        json!({ "schema": 1, "error": self.text, "finding": finding, "exit_code": self.code.number() })
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

/// Prints a text that is no report on stdout: whoever has read enough of it may close that.
///
/// # Errors
/// A [`Failure`] with code 4 if stdout does not take it.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => {
            written.map_err(|error| Failure::new(Code::System, format!("cannot write to stdout: {error}")).into())
        }
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
        let text = format!(
            "cannot write the report to stdout: {error}; the exit code is for that alone, and says nothing of the \
             transfer: --report FILE keeps a report"
        );
        Failure::new(Code::System, text).into()
    })
}

/// Prints the object of the end on stdout, in this form.
///
/// # Errors
/// As for [`report`].
pub fn report_object(object: &Value, form: Form) -> anyhow::Result<()> {
    match form {
        Form::Stream => report(&event::done(object).to_string()),
        Form::Lines | Form::Object => report(&object.to_string()),
    }
}

/// Prints a line on stderr; if nobody reads it any more, that changes nothing.
pub fn say(text: impl fmt::Display) {
    // One write for the whole line: those of other processes on this terminal go before it or behind it.
    drop(std::io::stderr().write_all(format!("{text}\n").as_bytes()));
}

/// Prints a failure on stderr and turns it into the process's exit code; what has no code of its own is a system
/// failure. For programs it is also an object on stdout, unless that has had a report.
pub fn finish(result: anyhow::Result<()>, form: Form) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let fault = error.downcast_ref::<Failure>().and_then(Failure::fault);
    let failure = Failure { code: code(&error), text: format!("{error:#}"), fault };
    if form != Form::Lines && !HAS_REPORTED.load(Ordering::Relaxed) {
        drop(report_object(&failure.to_json(), form));
    }
    let found = fault.map_or_else(String::new, |fault| format!(" [{}]", fault.code()));
    say(format_args!("ethbcast: {failure}{found}"));
    ExitCode::from(failure.code.number())
}

/// The exit code of a command that ends so.
pub fn number(result: &anyhow::Result<()>) -> u8 {
    result.as_ref().err().map_or(0, |error| code(error).number())
}

fn code(error: &anyhow::Error) -> Code {
    error.downcast_ref::<Failure>().map_or(Code::System, Failure::code)
}

/// Ends the process for a mistake that the command line's reader has found, who can explain it; `more` is said after
/// that. Whoever asks for help is answered.
pub fn refuse(error: &clap::Error, more: Option<String>, form: Form) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    if form != Form::Lines {
        drop(report_object(&Failure::new(Code::Usage, words(error)).to_json(), form));
    }
    drop(error.print());
    more.iter().for_each(say);
    std::process::exit(Code::Usage.number().into())
}

/// What the reader of the command line has to say, without what it says to everybody.
fn words(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let lines: Vec<&str> = first.trim_start_matches("error: ").lines().map(str::trim).collect();
    lines.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_known_of_a_command_line_that_is_none() {
        let form = |line: &str| Form::asked_for(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(form("ethbcast send --no-such-flag --json x"), Form::Object);
        assert_eq!(form("ethbcast send --json --json-stream x"), Form::Stream);
        assert_eq!(form("ethbcast send --no-such-flag -- --json"), Form::Lines, "that is a file");
        assert_eq!(form("ethbcast recv --no-such-flag --json -"), Form::Lines, "stdout is for data");
        assert_eq!(form("ethbcast"), Form::Lines);
    }

    #[test]
    fn the_words_of_the_command_lines_reader_are_one_sentence() {
        let command = clap::Command::new("ethbcast").arg(clap::Arg::new("SOURCE").required(true));
        let error = command.try_get_matches_from(["ethbcast"]).expect_err("there is none");
        assert_eq!(words(&error), "the following required arguments were not provided: <SOURCE>");
    }
}
