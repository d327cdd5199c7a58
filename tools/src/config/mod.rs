//! Options that are not on the command line: of the environment, and of the configuration file.
//!
//! What stands further in front counts: the command line, the environment (`ETHBCAST_RECV_MAX_SESSIONS`, for what all
//! commands on the wire share also `ETHBCAST_INTERFACE`), the command's table of the file (`[recv]`), what stands above
//! all tables in it, the default. They are put into the command line before it is read, so that there is one reader.

mod check;
mod file;
mod options;

use crate::args::{Cli, Command, ConfigArgs, ConfigCommand, RecvArgs};
use crate::exit::{self, Code, Failure, Form, fail, report, say};
use clap::{CommandFactory, FromArgMatches};
use file::File;
use options::Given;
use std::ffi::OsString;
use std::path::PathBuf;

/// Where the file is, unless `ETHBCAST_CONFIG` names another; empty, there is none.
const PATH: &str = "/etc/ethbcast/ethbcast.toml";
const VARIABLE: &str = "ETHBCAST_CONFIG";

/// The command line `own` with all that was said elsewhere.
///
/// # Errors
/// A [`Failure`] with code 2 or 4 if the file cannot be read or says what nobody understands.
pub fn command_line(own: Vec<OsString>) -> anyhow::Result<Cli> {
    let (arguments, given) = whole(own.clone())?;
    // clap prints help to stdout (exit 0) and mistakes to stderr (exit 2).
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
            let (named, other): (Vec<&Given>, Vec<&Given>) =
                given.iter().partition(|one| message.contains(&one.option()));
            let at_fault = if named.is_empty() { other } else { named };
            let also = at_fault.into_iter().map(Given::says).collect::<Vec<_>>().join(", ");
            exit::refuse(&error, Some(format!("ethbcast: also in force: {also}")), form)
        }
    })
}

/// The command line of this process with all that was said elsewhere, such as would repeat its run.
pub fn own_line() -> Vec<OsString> {
    let own: Vec<OsString> = std::env::args_os().collect();
    whole(own.clone()).map_or(own, |(arguments, _)| arguments)
}

/// The options of the receiver that is running, as they would be now.
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

/// A command line with what the environment and the file add to it, and what that is.
fn whole(own: Vec<OsString>) -> anyhow::Result<(Vec<OsString>, Vec<Given>)> {
    let Some(name) = options::command_of(&own) else { return Ok((own, Vec::new())) };
    let file = match path() {
        Some(path) => check::read(&path)?,
        None => File::default(),
    };
    let given = options::added(&own, &name, &file)?;
    let (program, rest) = own.split_at(2);
    let arguments = program.iter().cloned().chain(given.iter().map(Given::argument)).chain(rest.iter().cloned());
    Ok((arguments.collect(), given))
}

/// The file that is read: the usual one if it is there.
fn path() -> Option<PathBuf> {
    match std::env::var_os(VARIABLE) {
        Some(path) => Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty()),
        None => Some(PathBuf::from(PATH)).filter(|path| path.exists()),
    }
}

/// Runs `ethbcast config`.
///
/// # Errors
/// A [`Failure`] with code 2 if the file says what nobody understands, 4 if it cannot be read.
pub fn run(args: &ConfigArgs) -> anyhow::Result<()> {
    let ConfigCommand::Check { file } = &args.command;
    let named = file.clone().or_else(path);
    let path = named.clone().unwrap_or_else(|| PATH.into());
    if named.is_none() && !path.exists() {
        return report(&format!("there is no {}: all options have their defaults", path.display()));
    }
    let problems = check::problems(&File::load(&path)?);
    problems.iter().for_each(|problem| say(format_args!("{}: {problem}", path.display())));
    match problems.len() {
        0 => report(&format!("{}: nothing is wrong", path.display())),
        1 => fail(Code::Usage, "one thing is wrong"),
        count => fail(Code::Usage, format!("{count} things are wrong")),
    }
}
