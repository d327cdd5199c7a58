//! What can be wrong with the outputs of `lldpcli`.

use crate::topology::nodeset::{self, list};
use thiserror::Error;

/// What can be wrong with one output of `lldpcli`, or with all of them together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LldpProblem {
    /// Not one output at all.
    #[error("expected one output of `lldpcli -f json0 show neighbors` per host, found none")]
    NoFile,
    /// Not JSON, or not of `lldpcli`'s form; the text is the JSON parser's.
    #[error("expected the output of `lldpcli -f json0 show neighbors`: {0}")]
    Json(String),
    /// Two files about one host, which is named.
    #[error("`{0}` has an output already; keep one file for each host")]
    FileTwice(String),
    /// No file is about a host.
    #[error("all outputs are those of switches; add one for each host")]
    NoHost,
    /// Hosts with no switch among their neighbours.
    #[error("{} no switch{}; have lldpd run on the host and LLDP sent by the switch for a minute, then collect \
             again", hear(.hosts), on(.interface))]
    NoSwitch {
        /// The hosts.
        hosts: Vec<String>,
        /// The only interface that was looked at, if it was given.
        interface: Option<String>,
    },
    /// A host that hangs on several switches.
    #[error("the host hears the switch `{}` on {} and `{}` on {}; a host hangs on one: say with --interface by which \
             interface", .first.0, .first.1, .second.0, .second.1)]
    SeveralSwitches {
        /// A switch, and the interface it is heard on.
        first: (String, String),
        /// Another one.
        second: (String, String),
    },
    /// A cable whose ends say different rates.
    #[error(
        "`{near}` hears that the cable to `{far}` carries {rate}, and `{far}` that it carries {before}; collect the \
         outputs of both again, for one is older than what the cable carries now"
    )]
    RateTwice {
        /// The switch whose output this is.
        near: String,
        /// The switch at the other end.
        far: String,
        /// The rate the other end hears.
        before: String,
        /// The rate this end hears.
        rate: String,
    },
    /// Some cables between switches are known, but not enough to join all.
    #[error("no cable is known that joins {} to the switch `{first}`; add the outputs of these switches, or leave out \
             those of all", list(.islands))]
    Islands {
        /// One switch.
        first: String,
        /// The switches that cannot be reached from it.
        islands: Vec<String>,
    },
}

fn hear(hosts: &[String]) -> String {
    format!("{} {}", nodeset::fold(hosts), if hosts.len() == 1 { "hears" } else { "hear" })
}

fn on(interface: &Option<String>) -> String {
    interface.as_ref().map(|interface| format!(" on {interface}")).unwrap_or_default()
}
