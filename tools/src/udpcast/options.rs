//! udpcast's options according to its manual and help, and their treatment here.

use crate::args::{Role, unused, without_use};
use clap::{Arg, ArgAction, Command, value_parser};
use std::ffi::OsString;

/// Returns the command line of a role. Long options may be abbreviated unambiguously, as with
/// udpcast.
pub fn command(role: Role) -> Command {
    let command = Command::new(role.name())
        .about("udpcast's command line for ethbcast: the options are udpcast's, the frames are not")
        .infer_long_args(true)
        .args_override_self(true)
        .args(shared())
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
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn seconds(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("SECONDS").value_parser(value_parser!(u32)).help(help)
}

fn shared() -> [Arg; 8] {
    [
        path("file", 'f', "What is sent, or where it goes; without it stdin or stdout"),
        text("pipe", 'p', "Send what this command makes of FILE, or write to FILE what it makes of what comes"),
        text("interface", 'i', "Network interface; without it, the only one that is up, or that of the default route"),
        text("portbase", 'P', "Sender and receivers with the same meet: it is a part of the group's name")
            .alias("port")
            .value_parser(value_parser!(u16))
            .default_value("9000"),
        path("log", 'l', "Add what is logged to this file"),
        switch("no-progress", "No progress, no lines but errors"),
        text("stat-period", 'z', "Say so often how far it is where stderr is no terminal, in milliseconds")
            .alias("statistics-period")
            .value_parser(value_parser!(u32)),
        switch("nokbd", "Do not start at a key").short('k'),
    ]
}

fn of_sender() -> [Arg; 8] {
    [
        text("min-receivers", 'C', "Start as soon as so many have joined")
            .alias("min-clients")
            .value_parser(value_parser!(u16).range(0..65535)),
        seconds("min-wait", "Not before so long after the first has joined").short('w'),
        seconds("max-wait", "With fewer so long after the first has joined; 0: never").short('W'),
        seconds("start-timeout", "Give up if it has not started by then; 0: never").short('T'),
        text("autostart", 'S', "Start after so many times --rexmit-hello-interval").value_parser(value_parser!(u32)),
        text("rexmit-hello-interval", 'H', "Milliseconds; a second without it").value_parser(value_parser!(u32)),
        text("max-bitrate", 'r', "Send no more than this, such as 900m").alias("max_bitrate"),
        switch("streaming", "Let receivers take part that come later: they get all of it").short('Z'),
    ]
}

fn of_receiver() -> [Arg; 3] {
    [
        seconds("start-timeout", "Give up if nothing has begun by then; 0: never").short('s'),
        seconds("receive-timeout", "How long a silent sender is waited for; 0: half a minute"),
        switch("sync", "What is done in any case: the bytes are on the disk at the end").short('y'),
    ]
}
