//! Which options udpcast has, by its manual and its help, and what becomes of each here.

use super::Role;
use clap::{Arg, ArgAction, Command, value_parser};
use std::ffi::OsString;

/// What an option of udpcast's means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The same, or what there is here in any case (`--nokbd`).
    Same,
    /// Nothing: addresses, slices, duplex.
    Ignored,
    /// A limit that nothing here can keep.
    Unlimited,
    /// What the scripts that give it could not do without.
    Refused,
}

/// An option without a use here: its name, its letter, whether it has a value, its other names.
type Unused = (&'static str, Option<char>, bool, &'static [&'static str]);

const UNUSED_BY_BOTH: [Unused; 4] = [
    ("ttl", Some('t'), true, &[]),
    ("mcast-rdv-address", Some('M'), true, &["mcast_rdv_address", "mcast-all-address", "mcast_all_address"]),
    ("print-uncompressed-position", Some('x'), true, &[]),
    ("stat-period", Some('z'), true, &["statistics-period"]),
];
const UNUSED_BY_SENDER: [Unused; 21] = [
    ("full-duplex", Some('d'), false, &[]),
    ("half-duplex", Some('c'), false, &[]),
    ("mcast-data-address", Some('m'), true, &["mcast_data_address", "mcast-address", "mcast_address"]),
    ("pointopoint", Some('1'), false, &["point-to-point", "point_to_point"]),
    ("nopointopoint", Some('2'), false, &["nopoint-to-point", "nopoint_to_point"]),
    ("blocksize", Some('b'), true, &[]),
    ("broadcast", Some('B'), false, &[]),
    ("fec", Some('F'), true, &[]),
    ("bw-period", Some('I'), true, &[]),
    ("min-slice-size", None, true, &[]),
    ("max-slice-size", None, true, &[]),
    ("slice-size", None, true, &["default-slice-size"]),
    ("sendbuf", Some('s'), true, &[]),
    ("rehello-offset", Some('Y'), true, &[]),
    ("retries-until-drop", Some('R'), true, &["retriesUntilDrop"]),
    ("rate-governor", Some('g'), true, &[]),
    ("autorate", Some('A'), false, &[]),
    ("async", Some('a'), false, &[]),
    ("daemon-mode", Some('D'), false, &[]),
    ("pid-file", None, true, &[]),
    ("kill", Some('K'), false, &[]),
];
const UNUSED_BY_RECEIVER: [Unused; 5] = [
    ("passive", Some('d'), false, &[]),
    ("nosync", Some('n'), false, &[]),
    ("rcvbuf", Some('b'), true, &[]),
    ("exit-wait", Some('w'), true, &["exitWait"]),
    ("ignore-lost-data", Some('Z'), false, &[]),
];

/// What becomes of an option.
pub fn meaning(name: &str) -> Meaning {
    let unused = UNUSED_BY_BOTH.iter().chain(&UNUSED_BY_SENDER).chain(&UNUSED_BY_RECEIVER);
    match name {
        "rate-governor" | "autorate" => Meaning::Unlimited,
        "async" | "daemon-mode" | "pid-file" | "kill" | "passive" => Meaning::Refused,
        _ if unused.into_iter().any(|(other, ..)| *other == name) => Meaning::Ignored,
        _ => Meaning::Same,
    }
}

/// The command line of a role; a long option may be cut short, as with udpcast, where only one begins so.
pub fn command(role: Role) -> Command {
    let unused: &[Unused] = match role {
        Role::Sender => &UNUSED_BY_SENDER,
        Role::Receiver => &UNUSED_BY_RECEIVER,
    };
    let command = Command::new(role.name())
        .about("udpcast's command line for ethbcast: the options are udpcast's, the frames are not")
        .infer_long_args(true)
        .args_override_self(true)
        .args(shared())
        .args(UNUSED_BY_BOTH.iter().chain(unused).map(without_use));
    match role {
        Role::Sender => command.args(of_sender()),
        Role::Receiver => command.args(of_receiver()),
    }
}

fn without_use(&(name, letter, has_value, others): &Unused) -> Arg {
    let action = if has_value { ArgAction::Set } else { ArgAction::SetTrue };
    let help = match meaning(name) {
        Meaning::Refused => "Refused",
        Meaning::Unlimited => "Not obeyed, which is said",
        _ => "Ignored, which is said",
    };
    let arg = Arg::new(name).long(name).aliases(others).action(action).help(help);
    letter.into_iter().fold(arg, Arg::short)
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

fn shared() -> [Arg; 7] {
    [
        path("file", 'f', "What is sent, or where it goes; without it stdin or stdout"),
        text("pipe", 'p', "Send what this command makes of FILE, or write to FILE what it makes of what comes"),
        text("interface", 'i', "Network interface; without it, the only Ethernet interface that is up"),
        text("portbase", 'P', "Sender and receivers with the same meet: it is a part of the group's name")
            .alias("port")
            .value_parser(value_parser!(u16))
            .default_value("9000"),
        path("log", 'l', "Add what is logged to this file"),
        switch("no-progress", "No progress, no lines but errors"),
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
