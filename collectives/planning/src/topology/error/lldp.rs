//! Problems of `lldpcli` outputs.

use crate::topology::nodeset::{self, list};
use thiserror::Error;

/// Problem of one output of `lldpcli`, or of all of them together.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LldpProblem {
    /// The folder has no output.
    #[error("expected one output of `lldpcli -f json0 show neighbors` per host, found none")]
    NoFile,
    /// The text is not JSON, or not of `lldpcli`'s form; the message is the JSON parser's.
    #[error("expected the output of `lldpcli -f json0 show neighbors`: {0}")]
    Json(String),
    /// Two files are about this host.
    #[error("`{0}` has an output already; keep one file for each host")]
    FileTwice(String),
    /// No file is about a host.
    #[error("all outputs are those of switches; add one for each host")]
    NoHost,
    #[error("{} no switch{}; have lldpd run on the host and LLDP sent by the switch for a minute, then collect \
             again", hear(.hosts), on(.interface))]
    /// Hosts without a switch among their neighbours.
    NoSwitch {
        hosts: Vec<String>,
        /// The only interface considered, if given.
        interface: Option<String>,
    },
    /// A host hangs on several switches.
    #[error("the host hears the switch `{}` on {} and `{}` on {}; a host hangs on one: say with --interface by which \
             interface", .first.0, .first.1, .second.0, .second.1)]
    SeveralSwitches {
        /// A switch, and the interface it is heard on.
        first: (String, String),
        /// Another switch.
        second: (String, String),
    },
    /// The ends of a cable report different rates.
    #[error(
        "`{near}` hears that the cable to `{far}` carries {rate}, and `{far}` that it carries {before}; collect the \
         outputs of both again, for one is older than what the cable carries now"
    )]
    RateTwice {
        /// Switch whose output this is.
        near: String,
        /// Switch at the other end.
        far: String,
        /// Rate reported at the other end.
        before: String,
        /// Rate reported at this end.
        rate: String,
    },
    /// Some cables between switches are known, but too few to connect all.
    #[error("no cable is known that joins {} to the switch `{first}`; add the outputs of these switches, or leave out \
             those of all", list(.islands))]
    Islands {
        /// One switch.
        first: String,
        /// Switches that cannot be reached from it.
        islands: Vec<String>,
    },
}

fn hear(hosts: &[String]) -> String {
    format!("{} {}", nodeset::fold(hosts), if hosts.len() == 1 { "hears" } else { "hear" })
}

fn on(interface: &Option<String>) -> String {
    interface.as_ref().map(|interface| format!(" on {interface}")).unwrap_or_default()
}
