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
        path("file", 'f', "File to send or to write. Default: stdin or stdout"),
        text("pipe", 'p', "Filter: command through which the data passes before it is sent, or before it is written"),
        text("interface", 'i', "Network interface. Default: the only one that is up, or that of the default route"),
        text("portbase", 'P', "Number of the session: a sender and receivers with the same number meet")
            .alias("port")
            .value_parser(value_parser!(u16))
            .default_value("9000"),
        path("log", 'l', "Append log messages to this file"),
        switch("no-progress", "Print errors only"),
        text("stat-period", 'z', "Milliseconds between progress lines if stderr is not a terminal")
            .alias("statistics-period")
            .value_parser(value_parser!(u32)),
        switch("nokbd", "Do not start when a key is pressed").short('k'),
    ]
}

fn of_sender() -> [Arg; 8] {
    [
        text("min-receivers", 'C', "Start as soon as this many receivers have joined")
            .alias("min-clients")
            .value_parser(value_parser!(u16).range(0..65535)),
        seconds("min-wait", "Seconds to wait at least after the first receiver has joined").short('w'),
        seconds("max-wait", "Seconds after the first receiver has joined until the start with fewer; 0: never")
            .short('W'),
        seconds("start-timeout", "Seconds until send gives up if it has not started; 0: never").short('T'),
        text("autostart", 'S', "Start after this many times --rexmit-hello-interval").value_parser(value_parser!(u32)),
        text("rexmit-hello-interval", 'H', "Unit of --autostart in milliseconds. Default: 1000")
            .value_parser(value_parser!(u32)),
        text("max-bitrate", 'r', "Limit of the sending rate, such as 900m").alias("max_bitrate"),
        switch("streaming", "Accept receivers that join after the start; they get all data").short('Z'),
    ]
}

fn of_receiver() -> [Arg; 3] {
    [
        seconds("start-timeout", "Seconds until recv gives up if nothing has started; 0: never").short('s'),
        seconds("receive-timeout", "Seconds to wait for a silent sender; 0: 30"),
        switch("sync", "Sync to disk at the end, which is always done").short('y'),
    ]
}
