//! Exit codes of the program, and the failures that lead to each.

use crate::doctor::Fault;
use ethbcast_collectives::ErrorKind;
use ethbcast_collectives::membership::is_shown;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// Whether a report was written to stdout: readers of JSON get exactly one object, the outcome or
/// the failure.
static HAS_REPORTED: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Lines,
    Object,
    /// An object for each event; the last contains the result.
    Stream,
}

pub const CODES: [(&str, &str); 8] = [
    ("0", "All receivers have verified everything."),
    (
        "1",
        "Some receivers failed; each is named with its reason. With doctor: something is wrong.",
    ),
    (
        "2",
        "Usage, or input that is malformed or contradicts itself.",
    ),
    (
        "3",
        "Nobody was there, the time was up, or the group is another sender's.",
    ),
    (
        "4",
        "The system or a permission: interface, capability, SOURCE, DEST.",
    ),
    ("5", "The bytes are not those of the sender."),
    ("130, 143", "Interrupted, or asked to terminate."),
    ("other", "With recv --pipe, the command's own code."),
];

pub fn codes() -> String {
    let lines: Vec<String> = CODES
        .iter()
        .map(|(code, says)| format!("  {code:<9} {says}"))
        .collect();
    format!("Exit codes:\n{}", lines.join("\n"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    SomeFailed,
    Usage,
    /// A missing host, a timeout, or a group in use by another sender.
    Nobody,
    System,
    Integrity,
    Interrupted,
    Terminated,
    /// Exit code of the command that took the received bytes.
    Command(u8),
}

impl Code {
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

#[derive(Clone, Debug, Error)]
#[error("{text}")]
pub struct Failure {
    code: Code,
    text: String,
    fault: Option<Fault>,
}

impl Form {
    /// Guesses the requested form from a command line that may be invalid.
    pub fn requested(arguments: &[OsString]) -> Form {
        let options = arguments.iter().take_while(|word| *word != "--");
        let is_there = |wanted: &str| options.clone().any(|word| word == wanted);
        match (is_there("--json-stream"), is_there("--json")) {
            // Readers of data must not mistake an object for data.
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
    pub fn of_option(self, option: &str) -> Failure {
        Failure {
            text: format!("{option}: {}", self.text),
            ..self
        }
    }

    pub fn new(code: Code, text: impl fmt::Display) -> Failure {
        Failure {
            code,
            text: text.to_string(),
            fault: None,
        }
    }

    pub fn found(self, fault: impl Into<Option<Fault>>) -> Failure {
        Failure {
            fault: fault.into(),
            ..self
        }
    }

    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    pub fn code(&self) -> Code {
        self.code
    }

    pub fn to_json(&self) -> Value {
        let finding = self.fault.map(Fault::code);
        json!({ "schema": 1, "error": self.text, "finding": finding, "exit_code": self.code.number() })
    }
}

pub fn fail<T>(code: Code, text: impl fmt::Display) -> anyhow::Result<T> {
    Err(Failure::new(code, text).into())
}

pub trait WithCode<T> {
    fn code(self, code: Code) -> anyhow::Result<T>;
}

impl<T, E: fmt::Display> WithCode<T> for Result<T, E> {
    fn code(self, code: Code) -> anyhow::Result<T> {
        self.map_err(|error| Failure::new(code, error).into())
    }
}

/// Prints a text on stdout. A closed stdout is no error: its reader has ended, and the exit code
/// still has the outcome.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| {
            let text = format!(
                "cannot write to stdout: {error}; the exit code is for that alone, and says nothing of a transfer: \
                 --report FILE keeps a report"
            );
            Failure::new(Code::System, text).into()
        }),
    }
}

pub fn report(text: &str) -> anyhow::Result<()> {
    HAS_REPORTED.store(true, Ordering::Relaxed);
    print(text)
}

pub fn report_object(object: &Value, form: Form) -> anyhow::Result<()> {
    match form {
        Form::Stream => report(&done(object).to_string()),
        Form::Lines | Form::Object => report(&object.to_string()),
    }
}

/// Prints lines on stderr and ignores errors. Names and paths of others may be in them: characters
/// that must not be shown are replaced.
pub fn print_line(text: impl fmt::Display) {
    let text = text
        .to_string()
        .replace(|letter| letter != '\n' && !is_shown(letter), "\u{FFFD}");
    // A single write keeps the line together among other processes' output.
    drop(std::io::stderr().write_all(format!("{text}\n").as_bytes()));
}

/// Returns a text as one line, without characters on which a terminal or the journal would act.
pub fn one_line(text: &str) -> String {
    text.replace(|letter| !is_shown(letter), "\u{FFFD}")
}

/// Prints a failure on stderr and returns the exit code; an error without a code is a system
/// failure. In JSON forms the failure is also printed on stdout, unless a report was.
pub fn finish(result: anyhow::Result<()>, form: Form) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    let fault = error.downcast_ref::<Failure>().and_then(Failure::fault);
    let failure = Failure {
        code: code(&error),
        text: format!("{error:#}"),
        fault,
    };
    if form != Form::Lines && !HAS_REPORTED.load(Ordering::Relaxed) {
        drop(report_object(&failure.to_json(), form));
    }
    let found = fault.map_or_else(String::new, |fault| format!(" [{}]", fault.code()));
    print_line(format_args!("ethbcast: {failure}{found}"));
    ExitCode::from(failure.code.number())
}

pub fn number(result: &anyhow::Result<()>) -> u8 {
    result
        .as_ref()
        .err()
        .map_or(0, |error| code(error).number())
}

fn code(error: &anyhow::Error) -> Code {
    error
        .downcast_ref::<Failure>()
        .map_or(Code::System, Failure::code)
}

/// Ends the process after an error of the command-line parser, with `more` after its message, or
/// after printing the requested help.
pub fn refuse(error: &clap::Error, more: Option<String>, form: Form) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    if form != Form::Lines {
        drop(report_object(
            &Failure::new(Code::Usage, words(error)).to_json(),
            form,
        ));
    }
    drop(error.print());
    more.iter().for_each(print_line);
    std::process::exit(Code::Usage.number().into())
}

fn words(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let lines: Vec<&str> = first
        .trim_start_matches("error: ")
        .lines()
        .map(str::trim)
        .collect();
    lines.join(" ")
}

/// Version of the events. Events and fields may be added; none is removed or changed.
const VERSION: u64 = 1;

pub fn event(name: &str, mut fields: Value) -> Value {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    fields["version"] = json!(VERSION);
    fields["event"] = json!(name);
    fields["at"] = json!(now.as_millis() as f64 / 1000.0);
    fields
}

pub fn done(report: &Value) -> Value {
    event("done", json!({ "report": report }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_output_format_is_known_even_for_an_invalid_command_line() {
        let form =
            |line: &str| Form::requested(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(form("ethbcast send --no-such-flag --json x"), Form::Object);
        assert_eq!(form("ethbcast send --json --json-stream x"), Form::Stream);
        assert_eq!(
            form("ethbcast send --no-such-flag -- --json"),
            Form::Lines,
            "that is a file"
        );
        assert_eq!(
            form("ethbcast recv --no-such-flag --json -"),
            Form::Lines,
            "stdout is for data"
        );
        assert_eq!(form("ethbcast"), Form::Lines);
    }

    #[test]
    fn bytes_that_are_not_the_senders_end_with_code_5() {
        let text = "65536 bytes at byte 0 came damaged 3 times";
        let failure = crate::session::failure(ethbcast_collectives::session::Error::Damaged(
            text.to_owned(),
        ));
        assert_eq!(
            (failure.code().number(), failure.fault()),
            (5, Some(Fault::Damaged))
        );
        assert!(failure.to_string().contains(text), "{failure}");
    }

    #[test]
    fn one_line_contains_no_line_break_control_or_direction_characters() {
        assert_eq!(
            one_line("a\nb\u{1b}[2J\u{202e}c\u{2066}"),
            "a\u{FFFD}b\u{FFFD}[2J\u{FFFD}c\u{FFFD}"
        );
        assert_eq!(
            one_line("n1: \u{200c}é"),
            "n1: \u{200c}é",
            "letters of names stay"
        );
    }

    #[test]
    fn an_error_of_the_command_line_parser_is_one_sentence() {
        let command = clap::Command::new("ethbcast").arg(clap::Arg::new("SOURCE").required(true));
        let error = command
            .try_get_matches_from(["ethbcast"])
            .expect_err("there is none");
        assert_eq!(
            words(&error),
            "the following required arguments were not provided: <SOURCE>"
        );
    }

    #[test]
    fn every_event_says_what_it_is_when_it_was_and_of_which_version() {
        let event = done(&json!({ "schema": 1 }));
        assert_eq!(
            (&event["version"], &event["event"]),
            (&json!(1), &json!("done"))
        );
        assert_eq!(event["report"], json!({ "schema": 1 }));
        let at = UNIX_EPOCH + Duration::from_secs_f64(event["at"].as_f64().expect("a number"));
        assert!(
            at.elapsed().is_ok_and(|age| age < Duration::from_secs(60)),
            "{event}"
        );
    }
}
