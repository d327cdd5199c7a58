//! udpcast's command line: as `udp-sender` and `udp-receiver` the program takes udpcast's options,
//! so that scripts run unchanged. The protocol on the wire is ethbcast's.

mod options;
mod receiver;
mod sender;

use crate::args::{Cli, Command, Meaning, Role, meaning};
use crate::config;
use crate::exit::{Code, Failure, WithCode, fail, print_line};
use clap::ArgMatches;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, IntoRawFd};
use std::path::Path;

/// Shortest interval of progress lines that `send` and `recv` support.
const MIN_PERIOD_MS: u32 = 100;

/// Returns the equivalent command line of `send` or `recv`, and the log file.
///
/// # Errors
/// A [`Failure`] with code 2 if an option means what cannot be had here, 4 if the log cannot be
/// written.
pub fn command_line(role: Role, own: &[OsString]) -> anyhow::Result<(Cli, Option<File>)> {
    // clap prints help to stdout (exit 0) and errors to stderr (exit 2).
    let matches = options::command(role).try_get_matches_from(own).unwrap_or_else(|error| error.exit());
    say_what_is_not_done(&matches)?;
    let arguments = match role {
        Role::Sender => sender::arguments(&matches)?,
        Role::Receiver => receiver::arguments(&matches)?,
    };
    let mut cli = config::command_line(arguments)?;
    if let Command::Send(args) = &mut cli.command {
        args.start_rule = sender::start_rule(&matches)?;
    }
    let log = matches.get_one::<OsString>("log").map(|path| open_log(Path::new(path)));
    Ok((cli, log.transpose()?))
}

/// Opens the log file for appending.
///
/// # Errors
/// A [`Failure`] with code 4 if it cannot be written.
pub fn open_log(path: &Path) -> anyhow::Result<File> {
    let opened = File::options().append(true).create(true).open(path);
    let named = |error| format!("cannot write the log {}: {error}; leave out --log", path.display());
    opened.map_err(named).code(Code::System)
}

/// Warns about ignored options, and fails for those that cannot be supported.
fn say_what_is_not_done(matches: &ArgMatches) -> anyhow::Result<()> {
    let given = |wanted: Meaning| {
        let is = |id: &&str| {
            meaning(id) == wanted && matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine)
        };
        let names: Vec<String> = matches.ids().map(clap::Id::as_str).filter(is).map(|id| format!("--{id}")).collect();
        Some(names.join(", ")).filter(|names| !names.is_empty())
    };
    if let Some(names) = given(Meaning::Refused) {
        let text = format!(
            "{names}: this is ethbcast under udpcast's name, where receivers answer and each run is one transfer; \
             leave it out, or stay with udpcast's own program"
        );
        return fail(Code::Usage, text);
    }
    if let Some(names) = given(Meaning::Unlimited) {
        print_line(format_args!("ethbcast: {names} is not obeyed: what there is of a rate limit is --max-bitrate"));
    }
    if let Some(names) = given(Meaning::Ignored) {
        print_ignored(&names);
    }
    Ok(())
}

pub fn print_ignored(names: &str) {
    print_line(format_args!("ethbcast: ignored, as raw Ethernet frames have no use for it: {names}"));
}

/// Returns the options that both roles share: group and interface.
fn shared(command: &str, matches: &ArgMatches) -> anyhow::Result<Vec<OsString>> {
    let portbase = *matches.get_one::<u16>("portbase").expect("it has a default");
    if !portbase.is_multiple_of(2) {
        return fail(Code::Usage, format!("--portbase {portbase} is odd, and udpcast's are even: choose another"));
    }
    let mut arguments: Vec<OsString> = ["ethbcast", command].map(OsString::from).into();
    arguments.push(format!("--group=udpcast-{portbase}").into());
    if let Some(interface) = matches.get_one::<String>("interface") {
        // A label such as eth0:1 is another address of the same interface.
        let name = interface.split(':').next().unwrap_or(interface);
        arguments.push(format!("--interface={name}").into());
    }
    if let Some(&period) = matches.get_one::<u32>("stat-period") {
        arguments.push(format!("--stat-period={}", f64::from(period.max(MIN_PERIOD_MS)) / 1000.0).into());
    }
    if matches.get_flag("no-progress") {
        arguments.push("--quiet".into());
    }
    Ok(arguments)
}

/// Returns the command of --pipe, connected to a file or to this process's own stdin or stdout.
fn piped(command: &str, direction: char, file: Option<&OsString>, own: impl AsFd) -> anyhow::Result<String> {
    let end = match file {
        Some(path) => {
            let text = path.to_str().ok_or_else(|| {
                Failure::new(Code::Usage, format!("{} is no text in UTF-8: rename it", Path::new(path).display()))
            })?;
            format!("{direction} '{}'", text.replace('\'', "'\\''"))
        }
        // Kept open for the command, whose own stdin and stdout are in use.
        None => match nix::unistd::dup(own).code(Code::System)?.into_raw_fd() {
            number @ 0..=9 => format!("{direction}&{number}"),
            number => format!("{direction} /dev/fd/{number}"),
        },
    };
    Ok(format!("{{ {command}\n}} {end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beside_a_command_is_quoted_for_the_shell() {
        let file = OsString::from("it's an image");
        let command = piped("gzip -dc", '>', Some(&file), std::io::stdout()).expect("it can be");
        assert_eq!(command, "{ gzip -dc\n} > 'it'\\''s an image'");
    }

    #[test]
    fn a_period_in_milliseconds_is_one_in_seconds_and_never_too_short() {
        for (period, argument) in [("1500", "--stat-period=1.5"), ("0", "--stat-period=0.1")] {
            let matches = options::command(Role::Receiver).get_matches_from(["udp-receiver", "--stat-period", period]);
            let arguments = shared("recv", &matches).expect("nothing is wrong");
            assert_eq!(arguments, ["ethbcast", "recv", "--group=udpcast-9000", argument]);
        }
    }

    #[test]
    fn both_command_lines_are_consistent() {
        options::command(Role::Sender).debug_assert();
        options::command(Role::Receiver).debug_assert();
    }
}
