//! Option values from environment variables and the configuration file.
//!
//! The order of precedence is: the command line, the environment (`ETHBCAST_RECV_MAX_SESSIONS`, for
//! shared options also `ETHBCAST_INTERFACE`), the command's table of the file (`[recv]`), the part
//! above all tables, the default. The options are added to the command line before it is parsed, so
//! that there is a single parser.

mod file;

use crate::args::{Cli, Command, ConfigArgs, ConfigCommand, RecvArgs, WireArgs};
use crate::exit;
use crate::exit::{Code, Failure, Form, fail, print_line, report};
use clap::parser::ValueSource;
use clap::{
    Arg, ArgAction, ArgMatches, Args, Command as ClapCommand, CommandFactory, FromArgMatches,
};
use ethbcast_collectives::keys::{FILE_VARIABLE, NO_KEY_VARIABLE, PHRASE_VARIABLE};
use file::{File, Setting};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

/// Path of the file, unless `ETHBCAST_CONFIG` names another; empty for none.
const PATH: &str = "/etc/ethbcast/ethbcast.toml";
const VARIABLE: &str = "ETHBCAST_CONFIG";

pub fn command_line(own: Vec<OsString>) -> anyhow::Result<Cli> {
    let (arguments, given) = whole(own.clone())?;
    // clap prints help to stdout (exit 0) and errors to stderr (exit 2).
    let form = Form::requested(&arguments);
    let read = |arguments: Vec<OsString>| {
        let cli = Cli::command()
            .try_get_matches_from(arguments)
            .and_then(|matches| Cli::from_arg_matches(&matches));
        cli.map(Cli::settled)
    };
    read(arguments).or_else(|error| match read(own) {
        // A mistake of the command line itself: options from other sources are not mentioned.
        Err(own_error) => exit::refuse(&own_error, None, form),
        Ok(_) => {
            let text = error.to_string();
            let message = text.split("\n\n").next().unwrap_or_default();
            let (named, other): (Vec<&ConfiguredOption>, Vec<&ConfiguredOption>) = given
                .iter()
                .partition(|one| message.contains(&one.option()));
            let at_fault = if named.is_empty() { other } else { named };
            let also = at_fault
                .into_iter()
                .map(ConfiguredOption::description)
                .collect::<Vec<_>>()
                .join(", ");
            exit::refuse(
                &error,
                Some(format!("ethbcast: also in force: {also}")),
                form,
            )
        }
    })
}

/// Returns the command line of this process with the options from other sources, which repeats its
/// run.
pub fn own_line() -> Vec<OsString> {
    let own: Vec<OsString> = std::env::args_os().collect();
    whole(own.clone()).map_or(own, |(arguments, _)| arguments)
}

/// Whether the environment or the configuration file has given this process an option.
pub fn is_configured(option: &str) -> bool {
    let whole = whole(std::env::args_os().collect());
    whole.is_ok_and(|(_, given)| given.iter().any(|one| one.option() == option))
}

pub fn receiver_again() -> anyhow::Result<RecvArgs> {
    let (arguments, _) = whole(std::env::args_os().collect())?;
    let matches = Cli::command().try_get_matches_from(arguments);
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    match cli
        .map(Cli::settled)
        .map_err(|error| Failure::new(Code::Usage, error.to_string().trim_end()))?
        .command
    {
        Command::Recv(args) => Ok(*args),
        _ => fail(Code::Usage, "this process was not started as a receiver"),
    }
}

fn whole(own: Vec<OsString>) -> anyhow::Result<(Vec<OsString>, Vec<ConfiguredOption>)> {
    let Some(name) = command_of(&own) else {
        return Ok((own, Vec::new()));
    };
    let file = match path() {
        Some(path) => file::read(&path)?,
        None => File::default(),
    };
    let given = added(&own, &name, &file)?;
    let (program, rest) = own.split_at(2);
    let arguments = program
        .iter()
        .cloned()
        .chain(given.iter().map(ConfiguredOption::argument))
        .chain(rest.iter().cloned());
    Ok((arguments.collect(), given))
}

fn path() -> Option<PathBuf> {
    match std::env::var_os(VARIABLE) {
        Some(path) => Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty()),
        None => Some(PathBuf::from(PATH)).filter(|path| path.exists()),
    }
}

pub fn run(args: &ConfigArgs) -> anyhow::Result<()> {
    let ConfigCommand::Check { file } = &args.command;
    let Some(path) = file.clone().or_else(path) else {
        return report(&format!(
            "there is no {PATH}, or {VARIABLE} is empty: all options have their defaults"
        ));
    };
    let problems = file::problems(&File::load(&path)?);
    problems
        .iter()
        .for_each(|problem| print_line(format_args!("{}: {problem}", path.display())));
    match problems.len() {
        0 => report(&format!("{}: nothing is wrong", path.display())),
        1 => fail(Code::Usage, "one thing is wrong"),
        count => fail(Code::Usage, format!("{count} things are wrong")),
    }
}

/// Options that require another one, and are dropped without it.
const ONLY_WITH: [(&str, &str); 7] = [
    ("allow-group", "serve"),
    ("also-over", "serve"),
    ("max-sessions", "serve"),
    ("delete", "in-place"),
    ("min-receivers", "max-wait"),
    ("resume", "report"),
    ("only-missing", "report"),
];
/// Shared options with a short environment variable, which `--exec` does not set for its command
/// with another meaning.
const SHORT_VARIABLES: [&str; 5] = ["interface", "host", "ether-type", "over", "key-log"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredOption {
    name: String,
    value: Option<String>,
    from: String,
}

impl ConfiguredOption {
    pub fn argument(&self) -> OsString {
        match &self.value {
            Some(value) => format!("--{}={value}", self.name).into(),
            None => format!("--{}", self.name).into(),
        }
    }

    pub fn option(&self) -> String {
        format!("--{}", self.name)
    }

    pub fn description(&self) -> String {
        format!("{}, from {}", self.argument().display(), self.from)
    }
}

pub fn program() -> ClapCommand {
    let mut program = Cli::command();
    program.build();
    program
}

pub fn commands(program: &ClapCommand) -> impl Iterator<Item = &ClapCommand> {
    program.get_subcommands().filter(|command| {
        let exempt = ["help", "config", "man", "completions"].contains(&command.get_name());
        !exempt && !command.is_hide_set() && !command.has_subcommands()
    })
}

pub fn options(command: &ClapCommand) -> impl Iterator<Item = (&str, &Arg)> {
    let named = command
        .get_arguments()
        .filter_map(|arg| Some((arg.get_long()?, arg)));
    named.filter(|(name, arg)| !arg.is_hide_set() && !["help", "version"].contains(name))
}

pub fn shared() -> BTreeSet<String> {
    let command = WireArgs::augment_args(ClapCommand::new("wire"));
    options(&command).map(|(name, _)| name.to_owned()).collect()
}

pub fn command_of(own: &[OsString]) -> Option<String> {
    let name = own.get(1)?.to_str()?;
    commands(&program())
        .any(|command| command.get_name() == name)
        .then(|| name.to_owned())
}

pub fn added(own: &[OsString], name: &str, file: &File) -> anyhow::Result<Vec<ConfiguredOption>> {
    let program = program();
    // The parser handles requests for help, and errors.
    let Ok(matches) = program
        .clone()
        .ignore_errors(true)
        .try_get_matches_from(own)
    else {
        return Ok(Vec::new());
    };
    let Some((_, matches)) = matches.subcommand().filter(|(given, _)| *given == name) else {
        return Ok(Vec::new());
    };
    let Some(command) = program.find_subcommand(name) else {
        return Ok(Vec::new());
    };
    let (shared, is_given) = (shared(), |arg: &Arg| is_given(matches, arg));
    let mut added = Vec::new();
    for (option, arg) in options(command).filter(|(_, arg)| !is_given(arg)) {
        let excludes = |one: &Arg, other: &Arg| {
            command
                .get_arg_conflicts_with(one)
                .into_iter()
                .any(|excluded| excluded.get_id() == other.get_id())
        };
        let mut others = command.get_arguments().filter(|other| is_given(other));
        if others.any(|other| excludes(arg, other) || excludes(other, arg)) {
            continue;
        }
        if let Some((setting, from)) = setting(name, option, arg, file, shared.contains(option))? {
            added.extend(given(option, arg, setting, &from)?);
        }
    }
    let is_there = |option: &str| {
        added
            .iter()
            .any(|given: &ConfiguredOption| given.name == option)
            || options(command).any(|(name, arg)| name == option && is_given(arg))
    };
    let lacks = |given: &ConfiguredOption| {
        ONLY_WITH
            .iter()
            .any(|(option, other)| given.name == *option && !is_there(other))
    };
    let lacking: Vec<String> = added
        .iter()
        .filter(|given| lacks(given))
        .map(|given| given.name.clone())
        .collect();
    added.retain(|given| !lacking.contains(&given.name));
    Ok(added)
}

fn is_given(matches: &ArgMatches, arg: &Arg) -> bool {
    matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
}

/// Returns an option's setting and origin; the environment precedes the file.
fn setting(
    command: &str,
    option: &str,
    arg: &Arg,
    file: &File,
    is_shared: bool,
) -> anyhow::Result<Option<(Setting, String)>> {
    let spelt = |words: &[&str]| {
        format!(
            "ETHBCAST_{}",
            words.join("_").to_uppercase().replace('-', "_")
        )
    };
    let is_set = |name: &&str| std::env::var_os(name).is_some();
    let is_key_named = [FILE_VARIABLE, PHRASE_VARIABLE].iter().any(is_set);
    let short = match option {
        "no-key" if is_key_named => return Ok(None),
        "no-key" => Some(NO_KEY_VARIABLE.to_owned()),
        "key" => Some(FILE_VARIABLE.to_owned()),
        _ => SHORT_VARIABLES.contains(&option).then(|| spelt(&[option])),
    };
    for variable in [Some(spelt(&[command, option])), short]
        .into_iter()
        .flatten()
    {
        let Some(value) = std::env::var_os(&variable) else {
            continue;
        };
        let Some(value) = value.to_str() else {
            return fail(
                Code::Usage,
                format!("${variable} is no text in UTF-8: set it to one, or unset it"),
            );
        };
        let setting = match switch(value) {
            _ if takes_value(arg) => Setting::Values(vec![value.to_owned()]),
            Some(is_on) => Setting::Switch(is_on),
            None => {
                return fail(
                    Code::Usage,
                    format!("${variable} is {value:?}: set it to 1 or 0"),
                );
            }
        };
        return Ok(Some((setting, format!("${variable}"))));
    }
    let is_no_key =
        || std::env::var(NO_KEY_VARIABLE).is_ok_and(|value| switch(&value) == Some(true));
    if option == "key" && (is_key_named || is_no_key()) {
        return Ok(None);
    }
    Ok(file
        .setting(command, option, is_shared)
        .map(|(setting, place)| (setting.clone(), place)))
}

fn switch(value: &str) -> Option<bool> {
    match value.to_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "" | "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

pub fn takes_value(arg: &Arg) -> bool {
    !matches!(
        arg.get_action(),
        ArgAction::SetTrue | ArgAction::SetFalse | ArgAction::Count
    )
}

pub fn given(
    option: &str,
    arg: &Arg,
    setting: Setting,
    from: &str,
) -> anyhow::Result<Vec<ConfiguredOption>> {
    let one = |value| ConfiguredOption {
        name: option.to_owned(),
        value,
        from: from.to_owned(),
    };
    match (setting, takes_value(arg)) {
        (Setting::Switch(is_on), false) => Ok(is_on.then(|| one(None)).into_iter().collect()),
        (Setting::Values(values), true) => {
            Ok(values.into_iter().map(|value| one(Some(value))).collect())
        }
        (_, false) => fail(
            Code::Usage,
            format!("{from}: {option} is on or off: set it to true or false"),
        ),
        (_, true) => fail(
            Code::Usage,
            format!("{from}: {option} needs a value: a text, a number, or a list of them"),
        ),
    }
}
