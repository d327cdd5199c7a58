//! Why a topology was refused, and where it says so.

mod lldp;
mod slurm;

pub use lldp::LldpProblem;
pub use slurm::SlurmProblem;

use super::nodeset::{MAX_HOSTS, MAX_NAME_BYTES, NodeSetError, list};
use crate::schema::SchemaProblem;
use crate::source_error::SourceError;
use thiserror::Error;

/// A refused topology: where, and what is wrong. Displayed as `cluster.toml:4: switch …`.
pub type TopologyError = SourceError<TopologyProblem>;

/// What can be wrong with a topology.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TopologyProblem {
    /// Not TOML of schema 1.
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
    /// A `hosts` string that is no node set.
    #[error("hosts of switch `{switch}`: {error}")]
    Hosts {
        /// The switch whose hosts they are.
        switch: String,
        /// What is wrong with the node set.
        error: NodeSetError,
    },
    /// A name of no characters.
    #[error("a name is empty; use letters, digits and `-_.:`")]
    EmptyName,
    /// A name with a character that node sets give a meaning to.
    #[error("the name `{name}` may not contain `{}`; use letters, digits and `-_.:`", character.escape_debug())]
    NameCharacter {
        /// The whole name.
        name: String,
        /// The first character that may not be in it.
        character: char,
    },
    /// A name longer than [`MAX_NAME_BYTES`].
    #[error("the name `{0}` is longer than {MAX_NAME_BYTES} bytes; shorten it")]
    NameTooLong(String),
    /// Two switches of one name.
    #[error("switch `{0}` exists already; name every switch once")]
    SwitchTwice(String),
    /// One host named twice, on one switch or on two.
    #[error("host `{host}` is on switch `{switch}` already; name every host once")]
    HostTwice {
        /// The host.
        host: String,
        /// The switch it was on first.
        switch: String,
    },
    /// A link to something that is not a switch of this topology.
    #[error("switch `{switch}` links to `{link}`, which is not a switch; expected one of {}", list(.known))]
    UnknownLink {
        /// The switch with the link.
        switch: String,
        /// What it links to.
        link: String,
        /// The switches there are.
        known: Vec<String>,
    },
    /// A link from a switch to itself.
    #[error("switch `{0}` links to itself; name the switch at the other end of the cable")]
    LinkToItself(String),
    /// One switch naming the same neighbour twice.
    #[error(
        "switch `{switch}` links to `{link}` twice; name each cable once (a bundle is one of the summed rate: \
             {{ to = \"{link}\", rate = \"1gbit\", cables = 2 }})"
    )]
    LinkTwice {
        /// The switch with the links.
        switch: String,
        /// The switch named twice.
        link: String,
    },
    /// Switches joined in a ring, in order.
    #[error(
        "the switches {} form a loop; remove one of their links, or name the one that spanning tree blocks under \
         `blocked` instead", list(.0)
    )]
    Loop(Vec<String>),
    /// A cable that is said to carry frames and to carry none.
    #[error(
        "switch `{switch}` links to `{link}`, and the same cable is blocked; name it under `links` or under `blocked`"
    )]
    BlockedLink {
        /// One switch.
        switch: String,
        /// The switch at the other end.
        link: String,
    },
    /// A cable with two rates.
    #[error(
        "the cable from switch `{switch}` to `{link}` is described twice, with {before} and with {rate}; give it one \
         rate"
    )]
    RateTwice {
        /// One switch.
        switch: String,
        /// The switch at the other end.
        link: String,
        /// The rate named first.
        before: String,
        /// The other rate.
        rate: String,
    },
    /// A rate that is none; the sentence says how rates are written.
    #[error("rate: {0}")]
    Rate(String),
    /// A link that is neither a name nor a table of a name and what is known of the cable.
    #[error("expected a link as \"s1\" or as {{ to = \"s1\", rate = \"10gbit\", cables = 2 }}: {0}")]
    LinkForm(String),
    /// A `[[host]]` about a host that is on no switch.
    #[error("no switch has a host `{0}`; add it to the hosts of one, or correct the name")]
    NotOnSwitch(String),
    /// A `[[host]]` whose name is no node set.
    #[error("the name of a `[[host]]`: {0}")]
    HostSet(NodeSetError),
    /// Two `[[host]]` tables about one host.
    #[error("host `{0}` has a `[[host]]` already; say all about it in one")]
    HostDescribedTwice(String),
    /// A host that takes no time to send a frame.
    #[error("expected injection_ns above 0, found 0; leave it out if it is not known")]
    ZeroInjection,
    /// Switches that no cable joins to the first one.
    #[error("no links join {} to switch `{first}`; add a link to each group of switches", list(.islands))]
    Disconnected {
        /// The first switch of the topology.
        first: String,
        /// The switches that cannot be reached from it.
        islands: Vec<String>,
    },
    /// Something only a Slurm file can have wrong.
    #[error(transparent)]
    Slurm(#[from] SlurmProblem),
    /// Something only the outputs of `lldpcli` can have wrong.
    #[error(transparent)]
    Lldp(#[from] LldpProblem),
}
