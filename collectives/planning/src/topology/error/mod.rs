//! Errors of topologies, with their position.

mod lldp;
mod slurm;

pub use lldp::LldpProblem;
pub use slurm::SlurmProblem;

use super::nodeset::{MAX_HOSTS, MAX_NAME_BYTES, NodeSetError, list};
use crate::schema::SchemaProblem;
use crate::source_error::SourceError;
use thiserror::Error;

/// A refused topology, with position and problem. Displayed as `cluster.toml:4: switch …`.
pub type TopologyError = SourceError<TopologyProblem>;

/// Problem of a topology.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TopologyProblem {
    /// The text is not TOML of schema 1.
    #[error(transparent)]
    Schema(#[from] SchemaProblem),
    /// No switch at all.
    #[error("the topology names no switch; add a `[[switch]]` with a name and hosts")]
    NoSwitch,
    /// Switches, but not one host.
    #[error("the topology names no host; give at least one switch a `hosts = \"n[0-7]\"`")]
    NoHost,
    /// More hosts than [`MAX_HOSTS`].
    #[error("the topology names more than {MAX_HOSTS} hosts; check the ranges")]
    TooManyHosts,
    /// A `hosts` string is no node set.
    #[error("hosts of switch `{switch}`: {error}")]
    Hosts {
        /// Switch of these hosts.
        switch: String,
        error: NodeSetError,
    },
    /// A name of no characters.
    #[error("a name is empty; use letters, digits and `-_.:`")]
    EmptyName,
    /// A name contains a character that has a meaning in node sets.
    #[error("the name `{name}` may not contain `{}`; use letters, digits and `-_.:`", character.escape_debug())]
    NameCharacter {
        /// The whole name.
        name: String,
        /// First invalid character.
        character: char,
    },
    /// A name longer than [`MAX_NAME_BYTES`].
    #[error("the name `{0}` is longer than {MAX_NAME_BYTES} bytes; shorten it")]
    NameTooLong(String),
    /// Two switches have this name.
    #[error("switch `{0}` exists already; name every switch once")]
    SwitchTwice(String),
    /// A host is named twice, on one switch or on two.
    #[error("host `{host}` is on switch `{switch}` already; name every host once")]
    HostTwice {
        host: String,
        /// Switch that it was on first.
        switch: String,
    },
    /// A link leads to an unknown switch.
    #[error("switch `{switch}` links to `{link}`, which is not a switch; expected one of {}", list(.known))]
    UnknownLink {
        /// Switch with the link.
        switch: String,
        /// Target of the link.
        link: String,
        /// Known switches.
        known: Vec<String>,
    },
    /// A link from a switch to itself.
    #[error("switch `{0}` links to itself; name the switch at the other end of the cable")]
    LinkToItself(String),
    /// A switch names a neighbour twice.
    #[error(
        "switch `{switch}` links to `{link}` twice; name each cable once (a bundle is one of the summed rate: \
             {{ to = \"{link}\", rate = \"1gbit\", cables = 2 }})"
    )]
    LinkTwice {
        /// Switch with the links.
        switch: String,
        /// Switch named twice.
        link: String,
    },
    #[error(
        "the switches {} form a loop; remove one of their links, or name the one that spanning tree blocks under \
         `blocked` instead", list(.0)
    )]
    /// Switches whose cables form a loop.
    Loop(Vec<String>),
    /// A cable is both linked and blocked.
    #[error(
        "switch `{switch}` links to `{link}`, and the same cable is blocked; name it under `links` or under `blocked`"
    )]
    BlockedLink {
        switch: String,
        /// Switch at the other end.
        link: String,
    },
    /// A cable has two rates.
    #[error(
        "the cable from switch `{switch}` to `{link}` is described twice, with {before} and with {rate}; give it one \
         rate"
    )]
    RateTwice {
        switch: String,
        /// Switch at the other end.
        link: String,
        /// Rate named first.
        before: String,
        /// Other rate.
        rate: String,
    },
    /// An invalid rate; the sentence says how rates are written.
    #[error("rate: {0}")]
    Rate(String),
    /// A link is neither a name nor a table of a name and properties of the cable.
    #[error("expected a link as \"s1\" or as {{ to = \"s1\", rate = \"10gbit\", cables = 2 }}: {0}")]
    LinkForm(String),
    /// A `[[host]]` describes a host that is on no switch.
    #[error("no switch has a host `{0}`; add it to the hosts of one, or correct the name")]
    NotOnSwitch(String),
    /// The name of a `[[host]]` is no node set.
    #[error("the name of a `[[host]]`: {0}")]
    HostSet(NodeSetError),
    /// Two `[[host]]` tables describe one host.
    #[error("host `{0}` has a `[[host]]` already; say all about it in one")]
    HostDescribedTwice(String),
    /// A host takes no time to send a frame.
    #[error("expected injection_ns above 0, found 0; leave it out if it is not known")]
    ZeroInjection,
    /// Some switches are not connected to the first one.
    #[error("no links join {} to switch `{first}`; add a link to each group of switches", list(.islands))]
    Disconnected {
        /// First switch of the topology.
        first: String,
        /// Switches that cannot be reached from it.
        islands: Vec<String>,
    },
    /// A problem specific to Slurm files.
    #[error(transparent)]
    Slurm(#[from] SlurmProblem),
    /// A problem specific to `lldpcli` outputs.
    #[error(transparent)]
    Lldp(#[from] LldpProblem),
}
