//! Options from the environment and the configuration file.
//!
//! The order of precedence is: the command line, the environment (`ETHBCAST_RECV_MAX_SESSIONS`, for
//! shared options also `ETHBCAST_INTERFACE`), the command's table of the file (`[recv]`), the part
//! above all tables, the default. The options are added to the command line before it is parsed, so
//! that there is a single parser.

mod check;
mod file;
mod options;

use crate::args::{Cli, Command, ConfigArgs, ConfigCommand, RecvArgs};
use crate::exit::{self, Code, Failure, Form, fail, print_line, report};
use clap::{CommandFactory, FromArgMatches};
use file::File;
use options::ConfiguredOption;
use std::ffi::OsString;
use std::path::PathBuf;

/// Path of the file, unless `ETHBCAST_CONFIG` names another; empty for none.
const PATH: &str = "/etc/ethbcast/ethbcast.toml";
const VARIABLE: &str = "ETHBCAST_CONFIG";

/// Parses the command line `own` with the options from other sources.
///
/// # Errors
/// A [`Failure`] with code 2 or 4 if the file cannot be read or is invalid.
pub fn command_line(own: Vec<OsString>) -> anyhow::Result<Cli> {
    let (arguments, given) = whole(own.clone())?;
    // clap prints help to stdout (exit 0) and errors to stderr (exit 2).
    let form = Form::asked_for(&arguments);
    let read = |arguments: Vec<OsString>| {
        let cli = Cli::command().try_get_matches_from(arguments).and_then(|matches| Cli::from_arg_matches(&matches));
        cli.map(Cli::settled)
    };
    read(arguments).or_else(|error| match read(own) {
        // A mistake of the command line itself: what else is in force has no part in it.
        Err(own_error) => exit::refuse(&own_error, None, form),
        Ok(_) => {
            let text = error.to_string();
            let message = text.split("\n\n").next().unwrap_or_default();
            let (named, other): (Vec<&ConfiguredOption>, Vec<&ConfiguredOption>) =
                given.iter().partition(|one| message.contains(&one.option()));
            let at_fault = if named.is_empty() { other } else { named };
            let also = at_fault.into_iter().map(ConfiguredOption::description).collect::<Vec<_>>().join(", ");
            exit::refuse(&error, Some(format!("ethbcast: also in force: {also}")), form)
        }
    })
}

/// Returns the command line of this process with the options from other sources, which repeats its
/// run.
pub fn own_line() -> Vec<OsString> {
    let own: Vec<OsString> = std::env::args_os().collect();
    whole(own.clone()).map_or(own, |(arguments, _)| arguments)
}

/// Returns the current options of the running receiver.
///
/// # Errors
/// A [`Failure`] with code 2 or 4.
pub fn receiver_again() -> anyhow::Result<RecvArgs> {
    let (arguments, _) = whole(std::env::args_os().collect())?;
    let matches = Cli::command().try_get_matches_from(arguments);
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    match cli.map(Cli::settled).map_err(|error| Failure::new(Code::Usage, error.to_string().trim_end()))?.command {
        Command::Recv(args) => Ok(*args),
        _ => fail(Code::Usage, "this process was not started as a receiver"),
    }
}

/// Returns a command line extended by environment and file, and the added options.
fn whole(own: Vec<OsString>) -> anyhow::Result<(Vec<OsString>, Vec<ConfiguredOption>)> {
    let Some(name) = options::command_of(&own) else { return Ok((own, Vec::new())) };
    let file = match path() {
        Some(path) => check::read(&path)?,
        None => File::default(),
    };
    let given = options::added(&own, &name, &file)?;
    let (program, rest) = own.split_at(2);
    let arguments =
        program.iter().cloned().chain(given.iter().map(ConfiguredOption::argument)).chain(rest.iter().cloned());
    Ok((arguments.collect(), given))
}

fn path() -> Option<PathBuf> {
    match std::env::var_os(VARIABLE) {
        Some(path) => Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty()),
        None => Some(PathBuf::from(PATH)).filter(|path| path.exists()),
    }
}

/// Runs `ethbcast config`.
///
/// # Errors
/// A [`Failure`] with code 2 if the file is invalid, 4 if it cannot be read.
pub fn run(args: &ConfigArgs) -> anyhow::Result<()> {
    let ConfigCommand::Check { file } = &args.command;
    let named = file.clone().or_else(path);
    let path = named.clone().unwrap_or_else(|| PATH.into());
    if named.is_none() && !path.exists() {
        return report(&format!("there is no {}: all options have their defaults", path.display()));
    }
    let problems = check::problems(&File::load(&path)?);
    problems.iter().for_each(|problem| print_line(format_args!("{}: {problem}", path.display())));
    match problems.len() {
        0 => report(&format!("{}: nothing is wrong", path.display())),
        1 => fail(Code::Usage, "one thing is wrong"),
        count => fail(Code::Usage, format!("{count} things are wrong")),
    }
}
