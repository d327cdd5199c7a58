//! Errors of topologies, with their position.

use super::nodeset::{self, MAX_HOSTS, MAX_NAME_BYTES, NodeSetError, list};
use crate::source::{SchemaProblem, SourceError};
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
    /// A topology without switches.
    #[error("the topology names no switch; add a `[[switch]]` with a name and hosts")]
    NoSwitch,
    /// Switches, but not one host.
    #[error("the topology names no host; give at least one switch a `hosts = \"n[0-7]\"`")]
    NoHost,
    /// More than [`MAX_HOSTS`] hosts.
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
    /// All files are about switches, none about a host.
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
        /// A switch, and the interface that receives its LLDP frames.
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

/// Problem of Slurm's topology data.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SlurmProblem {
    /// A word in place of `KEY=VALUE`.
    #[error("expected `KEY=VALUE` such as `Nodes=n[0-7]`, found `{0}`")]
    NoKey(String),
    /// A key, as written, has no value.
    #[error("`{0}=` has no value; give one, such as `{0}=n[0-7]`")]
    NoValue(String),
    /// A quotation mark in the value of this key that is never closed.
    #[error("the value of `{0}=` opens a quotation mark and does not close it; close it on the same line")]
    OpenQuote(String),
    /// A key, as written, that `SwitchName` lines do not have.
    #[error("unknown key `{0}`, expected one of `SwitchName`, `Switches`, `Nodes`, `LinkSpeed`")]
    UnknownKey(String),
    /// A line begins with this key instead of its switch.
    #[error("expected `SwitchName=` at the beginning of the line, found `{0}=`")]
    NoSwitchName(String),
    /// A key, as written, occurs twice in one line.
    #[error("`{0}=` stands twice in this line; join its values with a comma")]
    KeyTwice(String),
    /// The file is for another topology plugin, as this key shows.
    #[error("`{0}=` is for Slurm's block plugin; expected the tree plugin's `SwitchName=` lines")]
    BlockPlugin(String),
    /// The text is no `topology.yaml`, or none about switches; the message says what was expected.
    #[error("{0}")]
    Yaml(String),
    /// A `LinkSpeed` is no rate.
    #[error("`LinkSpeed={0}` is no rate; write a number of Mbit/s, such as LinkSpeed=10000, or a rate such as 10gbit")]
    LinkSpeed(String),
    /// An `Include` line.
    #[error("`Include` is not followed; put the `SwitchName=` lines of all files into one")]
    Include,
    /// A `Switches=` value is no node set.
    #[error("child switches of `{switch}`: {error}")]
    Switches {
        /// Switch whose children they are.
        switch: String,
        error: NodeSetError,
    },
    /// A file without any `SwitchName=`.
    #[error("expected lines such as `SwitchName=s0 Nodes=n[0-7]`, found none")]
    NoSwitch,
    /// A file without any `Nodes=`.
    #[error("no switch has hosts; give at least one a `Nodes=n[0-7]`")]
    NoNodes,
    /// The text has no address.
    #[error("expected lines such as `s0.s4.n3 switch.switch.node`, found none")]
    NoAddress,
    /// A line has a word after an address and a pattern.
    #[error("expected an address and at most a pattern, found a third word `{0}`")]
    ThirdWord(String),
    /// A pattern is not `switch.….node`.
    #[error("expected a pattern of `switch` and a last `node`, such as switch.switch.node, found `{0}`")]
    Pattern(String),
    /// An address has fewer parts than its pattern.
    #[error("the address `{address}` has fewer parts than its pattern `{pattern}`; copy both from one host")]
    ShortAddress {
        address: String,
        /// Pattern of the address.
        pattern: String,
    },
    /// An address that ends without a host.
    #[error("the address `{0}` names no host; expected one such as s0.s4.n3")]
    NoHost(String),
    /// An address passes several switches of one level, which Slurm folds.
    #[error("the address goes through several switches at once, `{0}`; only a tree of switches can be read")]
    SeveralSwitches(String),
    /// An address has no switches, while others have some.
    #[error("the address `{0}` names no switch, though others do; collect the addresses from one job")]
    NoSwitches(String),
}
