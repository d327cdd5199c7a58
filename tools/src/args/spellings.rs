//! Names of udpcast's programs, and those of their options that have no counterpart in this
//! program.
//!
//! Under udpcast's program names such an option is ignored or refused. `send` and `recv` accept the
//! ignored ones, too.

use clap::error::Error;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::ffi::OsStr;
use std::path::Path;

/// Program of udpcast that this process stands in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Sender,
    Receiver,
}

impl Role {
    /// Returns the role for the name under which the program was called, if that is one of
    /// udpcast's.
    pub fn of(program: &OsStr) -> Option<Role> {
        let name = Path::new(program).file_name()?;
        [Role::Sender, Role::Receiver]
            .into_iter()
            .find(|role| name == role.name())
    }

    pub fn name(self) -> &'static str {
        match self {
            Role::Sender => "udp-sender",
            Role::Receiver => "udp-receiver",
        }
    }
}

/// Meaning of a udpcast option here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Unchanged, or always in effect (`--nokbd`).
    Same,
    /// Ignored: addresses, slices, duplex.
    Ignored,
    Unlimited,
    /// Refused, because scripts that use it depend on it.
    Refused,
}

/// Option without a use here: name, letter, whether it takes a value, other names.
pub type Unused = (&'static str, Option<char>, bool, &'static [&'static str]);

/// Option that this program's own commands have for themselves.
const OWN: &str = "ttl";

const UNUSED_BY_BOTH: [Unused; 3] = [
    (OWN, Some('t'), true, &[]),
    (
        "mcast-rdv-address",
        Some('M'),
        true,
        &[
            "mcast_rdv_address",
            "mcast-all-address",
            "mcast_all_address",
        ],
    ),
    ("print-uncompressed-position", Some('x'), true, &[]),
];
const UNUSED_BY_SENDER: [Unused; 21] = [
    ("full-duplex", Some('d'), false, &[]),
    ("half-duplex", Some('c'), false, &[]),
    (
        "mcast-data-address",
        Some('m'),
        true,
        &["mcast_data_address", "mcast-address", "mcast_address"],
    ),
    (
        "pointopoint",
        Some('1'),
        false,
        &["point-to-point", "point_to_point"],
    ),
    (
        "nopointopoint",
        Some('2'),
        false,
        &["nopoint-to-point", "nopoint_to_point"],
    ),
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

pub fn unused(role: Role) -> impl Iterator<Item = &'static Unused> {
    let own: &[Unused] = match role {
        Role::Sender => &UNUSED_BY_SENDER,
        Role::Receiver => &UNUSED_BY_RECEIVER,
    };
    UNUSED_BY_BOTH.iter().chain(own)
}

pub fn meaning(name: &str) -> Meaning {
    let unused = UNUSED_BY_BOTH
        .iter()
        .chain(&UNUSED_BY_SENDER)
        .chain(&UNUSED_BY_RECEIVER);
    match name {
        "rate-governor" | "autorate" => Meaning::Unlimited,
        "async" | "daemon-mode" | "pid-file" | "kill" | "passive" => Meaning::Refused,
        _ if unused.into_iter().any(|(other, ..)| *other == name) => Meaning::Ignored,
        _ => Meaning::Same,
    }
}

/// Returns the options of a role that this program's own commands ignore, without their letters.
fn ignored(role: Role) -> impl Iterator<Item = Arg> {
    let is_ignored = |name: &str| name != OWN && meaning(name) == Meaning::Ignored;
    let unused = unused(role).filter(move |(name, ..)| is_ignored(name));
    let without_letter =
        |&(name, _, has_value, others): &Unused| without_use(&(name, None, has_value, others));
    let nokbd = Arg::new("nokbd").long("nokbd").action(ArgAction::SetTrue);
    unused
        .map(without_letter)
        .chain([nokbd])
        .map(|arg| arg.hide(true))
}

pub fn without_use(&(name, letter, has_value, others): &Unused) -> Arg {
    let action = if has_value {
        ArgAction::Set
    } else {
        ArgAction::SetTrue
    };
    let help = match meaning(name) {
        Meaning::Refused => "Refused",
        Meaning::Unlimited => "Not enforced; a message says so",
        _ => "Ignored; a message says so",
    };
    let arg = Arg::new(name)
        .long(name)
        .aliases(others)
        .action(action)
        .help(help);
    letter.into_iter().fold(arg, Arg::short)
}

#[derive(Clone, Debug, Default)]
pub struct UnusedBySender(Given);

#[derive(Clone, Debug, Default)]
pub struct UnusedByReceiver(Given);

/// Ignored options on the command line, such as `--full-duplex`.
#[derive(Clone, Debug, Default)]
struct Given {
    names: Vec<String>,
}

impl Given {
    fn read(role: Role, matches: &ArgMatches) -> Given {
        let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let ids = ignored(role).map(|arg| arg.get_id().to_string());
        Given {
            names: ids
                .filter(|id| is_given(id))
                .map(|id| format!("--{id}"))
                .collect(),
        }
    }
}

macro_rules! takes_and_ignores {
    ($unused:ident, $role:expr) => {
        impl $unused {
            /// Returns the ignored options on the command line, separated by commas, if there are
            /// any.
            pub fn given(&self) -> Option<String> {
                Some(self.0.names.join(", ")).filter(|given| !given.is_empty())
            }
        }

        impl Args for $unused {
            fn augment_args(command: Command) -> Command {
                command.args(ignored($role))
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $unused {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
                Ok($unused(Given::read($role, matches)))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                Self::from_arg_matches(matches).map(|read| *self = read)
            }
        }
    };
}

takes_and_ignores!(UnusedBySender, Role::Sender);
takes_and_ignores!(UnusedByReceiver, Role::Receiver);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_says_whose_command_line_it_is() {
        assert_eq!(
            Role::of(OsStr::new("/usr/local/sbin/udp-sender")),
            Some(Role::Sender)
        );
        assert_eq!(Role::of(OsStr::new("udp-receiver")), Some(Role::Receiver));
        assert_eq!(Role::of(OsStr::new("/opt/udp-sender/ethbcast")), None);
    }
}
