//! udpcast's command line, so that scripts for `udp-sender` and `udp-receiver` run unchanged. The
//! protocol on the wire is ethbcast's.

use crate::args::{Cli, Command, Meaning, Role, meaning, unused, without_use};
use crate::config;
use crate::exit::{Code, Failure, WithCode, fail, print_line};
use crate::send::StartRule;
use clap::{Arg, ArgAction, ArgMatches, Command as ClapCommand, value_parser};
use std::ffi::OsString;
use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::{AsFd, IntoRawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

const MIN_PERIOD_MS: u32 = 100;

/// Returns the equivalent command line of `send` or `recv`, and the log file.
pub fn command_line(role: Role, own: &[OsString]) -> anyhow::Result<(Cli, Option<File>)> {
    // clap prints help to stdout (exit 0) and errors to stderr (exit 2).
    let matches = command(role)
        .try_get_matches_from(own)
        .unwrap_or_else(|error| error.exit());
    print_what_is_not_done(&matches)?;
    let arguments = match role {
        Role::Sender => sender_arguments(&matches)?,
        Role::Receiver => receiver_arguments(&matches)?,
    };
    let mut cli = config::command_line(arguments)?;
    if let Command::Send(args) = &mut cli.command {
        args.start_rule = start_rule(&matches)?;
    }
    let log = matches
        .get_one::<OsString>("log")
        .map(|path| open_log(Path::new(path)));
    Ok((cli, log.transpose()?))
}

pub fn open_log(path: &Path) -> anyhow::Result<File> {
    let opened = File::options().append(true).create(true).open(path);
    let named = |error| {
        format!(
            "cannot write the log {}: {error}; leave out --log",
            path.display()
        )
    };
    opened.map_err(named).code(Code::System)
}

/// Warns about ignored options, and fails for those that cannot be supported.
fn print_what_is_not_done(matches: &ArgMatches) -> anyhow::Result<()> {
    let given = |wanted: Meaning| {
        let is = |id: &&str| {
            meaning(id) == wanted
                && matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine)
        };
        let names: Vec<String> = matches
            .ids()
            .map(clap::Id::as_str)
            .filter(is)
            .map(|id| format!("--{id}"))
            .collect();
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
        print_line(format_args!(
            "ethbcast: {names} is not obeyed: what there is of a rate limit is --max-bitrate"
        ));
    }
    if let Some(names) = given(Meaning::Ignored) {
        print_ignored(&names);
    }
    Ok(())
}

pub fn print_ignored(names: &str) {
    print_line(format_args!(
        "ethbcast: ignored, as raw Ethernet frames have no use for it: {names}"
    ));
}

fn shared(command: &str, matches: &ArgMatches) -> anyhow::Result<Vec<OsString>> {
    let portbase = *matches
        .get_one::<u16>("portbase")
        .expect("it has a default");
    if !portbase.is_multiple_of(2) {
        return fail(
            Code::Usage,
            format!("--portbase {portbase} is odd, and udpcast's are even: choose another"),
        );
    }
    let mut arguments: Vec<OsString> = ["ethbcast", command].map(OsString::from).into();
    arguments.push(format!("--group=udpcast-{portbase}").into());
    if let Some(interface) = matches.get_one::<String>("interface") {
        // A label such as eth0:1 is another address of the same interface.
        let name = interface.split(':').next().unwrap_or(interface);
        arguments.push(format!("--interface={name}").into());
    }
    if let Some(&period) = matches.get_one::<u32>("stat-period") {
        arguments.push(
            format!(
                "--stat-period={}",
                f64::from(period.max(MIN_PERIOD_MS)) / 1000.0
            )
            .into(),
        );
    }
    if matches.get_flag("no-progress") {
        arguments.push("--quiet".into());
    }
    Ok(arguments)
}

/// Returns the command of --pipe, connected to a file or to this process's own stdin or stdout.
fn piped(
    command: &str,
    direction: char,
    file: Option<&OsString>,
    own: impl AsFd,
) -> anyhow::Result<String> {
    let end = match file {
        Some(path) => {
            let text = path.to_str().ok_or_else(|| {
                Failure::new(
                    Code::Usage,
                    format!(
                        "{} is no text in UTF-8: rename it",
                        Path::new(path).display()
                    ),
                )
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

/// Returns the command line of a role. Long options may be abbreviated unambiguously, as with
/// udpcast.
pub fn command(role: Role) -> ClapCommand {
    let command = ClapCommand::new(role.name())
        .about("udpcast's command line for ethbcast: the options are udpcast's, the frames are not")
        .infer_long_args(true)
        .args_override_self(true)
        .args(shared_options())
        .args(unused(role).map(without_use));
    match role {
        Role::Sender => command.args(of_sender()),
        Role::Receiver => command.args(of_receiver()),
    }
}

fn text(name: &'static str, letter: char, help: &'static str) -> Arg {
    Arg::new(name).long(name).short(letter).help(help)
}

fn path(name: &'static str, letter: char, help: &'static str) -> Arg {
    text(name, letter, help).value_parser(value_parser!(OsString))
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help)
}

fn whole_seconds(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("SECONDS")
        .value_parser(value_parser!(u32))
        .help(help)
}

fn shared_options() -> [Arg; 8] {
    [
        path(
            "file",
            'f',
            "File to send or to write. Default: stdin or stdout",
        ),
        text(
            "pipe",
            'p',
            "Filter: command through which the data passes before it is sent, or before it is written",
        ),
        text(
            "interface",
            'i',
            "Network interface. Default: the only one that is up, or that of the default route",
        ),
        text(
            "portbase",
            'P',
            "Number of the session: a sender and receivers with the same number meet",
        )
        .alias("port")
        .value_parser(value_parser!(u16))
        .default_value("9000"),
        path("log", 'l', "Append log messages to this file"),
        switch("no-progress", "Print errors only"),
        text(
            "stat-period",
            'z',
            "Milliseconds between progress lines if stderr is not a terminal",
        )
        .alias("statistics-period")
        .value_parser(value_parser!(u32)),
        switch("nokbd", "Do not start when a key is pressed").short('k'),
    ]
}

fn of_sender() -> [Arg; 8] {
    [
        text(
            "min-receivers",
            'C',
            "Start as soon as this many receivers have joined",
        )
        .alias("min-clients")
        .value_parser(value_parser!(u16).range(0..65535)),
        whole_seconds(
            "min-wait",
            "Seconds to wait at least after the first receiver has joined",
        )
        .short('w'),
        whole_seconds(
            "max-wait",
            "Seconds after the first receiver has joined until the start with fewer; 0: never",
        )
        .short('W'),
        whole_seconds(
            "start-timeout",
            "Seconds until send gives up if it has not started; 0: never",
        )
        .short('T'),
        text(
            "autostart",
            'S',
            "Start after this many times --rexmit-hello-interval",
        )
        .value_parser(value_parser!(u32)),
        text(
            "rexmit-hello-interval",
            'H',
            "Unit of --autostart in milliseconds. Default: 1000",
        )
        .value_parser(value_parser!(u32)),
        text(
            "max-bitrate",
            'r',
            "Limit of the sending rate, such as 900m",
        )
        .alias("max_bitrate"),
        switch(
            "streaming",
            "Accept receivers that join after the start; they get all data",
        )
        .short('Z'),
    ]
}

fn of_receiver() -> [Arg; 3] {
    [
        whole_seconds(
            "start-timeout",
            "Seconds until recv gives up if nothing has started; 0: never",
        )
        .short('s'),
        whole_seconds(
            "receive-timeout",
            "Seconds to wait for a silent sender; 0: 30",
        ),
        switch("sync", "Sync to disk at the end, which is always done").short('y'),
    ]
}

pub fn receiver_arguments(matches: &ArgMatches) -> anyhow::Result<Vec<OsString>> {
    let mut arguments = shared("recv", matches)?;
    for (own, ours) in [
        ("start-timeout", "max-wait"),
        ("receive-timeout", "patience"),
    ] {
        if let Some(seconds) = matches.get_one::<u32>(own).filter(|&&seconds| seconds > 0) {
            arguments.push(format!("--{ours}={seconds}").into());
        }
    }
    let file = matches.get_one::<OsString>("file");
    let command = matches.get_one::<String>("pipe").map(String::as_str);
    match (command, file) {
        (Some(command), file) => {
            let command = piped(command, '>', file, std::io::stdout())?;
            // The command's stdout carries data, which a report must not mix with.
            if !matches.get_flag("no-progress") {
                arguments.push("--quiet".into());
            }
            arguments.push(format!("--pipe={command}").into());
        }
        (None, Some(file)) if takes_what_comes(Path::new(file)) => {
            let command = piped("cat", '>', Some(file), std::io::stdout())?;
            arguments.push(format!("--pipe={command}").into());
        }
        // An existing file is overwritten, as by udpcast.
        (None, Some(file)) => arguments.extend(["--force".into(), "--".into(), file.clone()]),
        (None, None) => arguments.extend(["--".into(), "-".into()]),
    }
    Ok(arguments)
}

/// Whether a file is a pipe or character device, which cannot be replaced.
fn takes_what_comes(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|there| there.file_type().is_fifo() || there.file_type().is_char_device())
}

/// Wait for the first receiver without --start-timeout, the longest that `send` accepts, in
/// seconds.
const FOR_EVER: u32 = 1_000_000_000;
/// Interval of udpcast's hello messages, in milliseconds.
const HELLO_MS: u32 = 1000;

pub fn sender_arguments(matches: &ArgMatches) -> anyhow::Result<Vec<OsString>> {
    let mut arguments = shared("send", matches)?;
    arguments.push(format!("--min-receivers={}", least(matches)).into());
    arguments.push(
        format!(
            "--max-wait={}",
            seconds(matches, "start-timeout").unwrap_or(FOR_EVER)
        )
        .into(),
    );
    if let Some(rate) = matches.get_one::<String>("max-bitrate") {
        arguments.push(format!("--rate={rate}").into());
    }
    if matches.get_flag("streaming") {
        arguments.push("--late".into());
    }
    let file = matches.get_one::<OsString>("file");
    match matches.get_one::<String>("pipe") {
        Some(command) => {
            let command = piped(command, '<', file, std::io::stdin())?;
            arguments.push(format!("--pipe={command}").into());
        }
        None => arguments.extend(["--".into(), file.cloned().unwrap_or_else(|| "-".into())]),
    }
    Ok(arguments)
}

pub fn start_rule(matches: &ArgMatches) -> anyhow::Result<Option<StartRule>> {
    let is_given = |name: &str| matches.contains_id(name);
    let counts = ["min-receivers", "min-wait", "max-wait"]
        .into_iter()
        .any(is_given);
    let autostart = matches.get_one::<u32>("autostart").copied();
    let at_enter =
        !matches.get_flag("nokbd") && matches.contains_id("file") && std::io::stdin().is_terminal();
    if !counts && autostart.is_none() && !at_enter {
        let text = "nothing says when to start: add --min-receivers N, or run it with --file on a terminal without \
                    --nokbd and press Enter; keys at receivers are not heard";
        return fail(Code::Usage, text);
    }
    let hello = matches
        .get_one::<u32>("rexmit-hello-interval")
        .copied()
        .unwrap_or(HELLO_MS);
    Ok(Some(StartRule {
        receivers: counts.then(|| usize::from(least(matches))),
        min_wait: Duration::from_secs(seconds(matches, "min-wait").unwrap_or(0).into()),
        max_wait: seconds(matches, "max-wait").map(|seconds| Duration::from_secs(seconds.into())),
        after: autostart.map(|hellos| Duration::from_millis(u64::from(hellos) * u64::from(hello))),
        at_enter,
    }))
}

/// Returns a number of seconds; 0 counts as not given.
fn seconds(matches: &ArgMatches, name: &str) -> Option<u32> {
    matches
        .get_one::<u32>(name)
        .copied()
        .filter(|&seconds| seconds > 0)
}

fn least(matches: &ArgMatches) -> u16 {
    matches
        .get_one::<u16>("min-receivers")
        .copied()
        .unwrap_or(1)
        .max(1)
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
            let matches =
                command(Role::Receiver).get_matches_from(["udp-receiver", "--stat-period", period]);
            let arguments = shared("recv", &matches).expect("nothing is wrong");
            assert_eq!(
                arguments,
                ["ethbcast", "recv", "--group=udpcast-9000", argument]
            );
        }
    }

    #[test]
    fn both_command_lines_are_consistent() {
        command(Role::Sender).debug_assert();
        command(Role::Receiver).debug_assert();
    }
}
