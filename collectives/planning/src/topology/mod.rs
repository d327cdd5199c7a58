//! Network topologies: the switch of each host, and the cables between switches.
//!
//! A [`Topology`] is a tree of switches with every host on exactly one of them (Patarasuk 2008 §2:
//! switched Ethernet forwards along a spanning tree, so the path between two hosts is unique). A
//! value of this type is valid by construction: no loop, no island, no name twice. It comes from a
//! file ([`Topology::parse`]), from a list of hosts ([`Topology::single_switch`]), from other
//! programs' data (`slurm`, `lldp`), or is one of the papers' test beds
//! ([`Topology::builtin`]).

mod build;
#[doc(hidden)]
pub mod discovery;
mod file;
#[doc(hidden)]
pub mod lldp;
#[doc(hidden)]
pub mod nodeset;
#[doc(hidden)]
pub mod slurm;
mod tree;

use crate::source::{SchemaProblem, SourceError};
use nodeset::{MAX_HOSTS, MAX_NAME_BYTES, NodeSetError, list};
use thiserror::Error;

pub use build::{ASSUMED_RATE_BITS_PER_SECOND, BUILTIN_NAMES};
pub(crate) use tree::Walk;
pub use tree::{Imported, Topology};
#[doc(hidden)]
pub use tree::{NEVER, Place, Uplink};

/// Random topologies for property tests, made as text like those of users.
#[cfg(test)]
pub(crate) mod arbitrary {
    use super::Topology;
    use proptest::prelude::*;
    use proptest::sample::Index;

    pub(crate) fn topology(
        max_switches: usize,
        max_hosts: usize,
    ) -> impl Strategy<Value = Topology> {
        topology_text(max_switches, max_hosts).prop_map(|text| {
            Topology::parse(&text, "random").unwrap_or_else(|error| panic!("{error}\n{text}"))
        })
    }

    pub(crate) fn topology_text(
        max_switches: usize,
        max_hosts: usize,
    ) -> impl Strategy<Value = String> {
        let switches = prop::collection::vec(
            (any::<Index>(), any::<bool>(), any::<bool>()),
            1..=max_switches,
        );
        let shuffled = switches.prop_flat_map(|switches| {
            let order: Vec<usize> = (0..switches.len()).collect();
            (Just(switches), Just(order).prop_shuffle())
        });
        let hosts = prop::collection::vec(any::<Index>(), 1..=max_hosts);
        (shuffled, hosts).prop_map(|((switches, order), hosts)| {
            let mut links = vec![Vec::new(); switches.len()];
            for (id, (parent, from_below, from_both)) in switches.iter().enumerate().skip(1) {
                let (low, high) = (order[parent.index(id)], order[id]);
                if *from_below || *from_both {
                    links[low].push(high);
                }
                if !*from_below || *from_both {
                    links[high].push(low);
                }
            }
            let on: Vec<usize> = hosts
                .iter()
                .map(|host| host.index(switches.len()))
                .collect();
            write(&links, &on)
        })
    }

    fn write(links: &[Vec<usize>], switch_of: &[usize]) -> String {
        let mut text = String::from("schema = 1\n");
        for (id, links) in links.iter().enumerate() {
            let quoted = |names: Vec<String>| names.join(", ");
            let hosts = switch_of.iter().enumerate().filter(|host| *host.1 == id);
            let hosts = quoted(hosts.map(|(host, _)| format!("\"n{host}\"")).collect());
            let links = quoted(links.iter().map(|link| format!("\"s{link}\"")).collect());
            text +=
                &format!("[[switch]]\nname = \"s{id}\"\nhosts = [{hosts}]\nlinks = [{links}]\n");
        }
        text
    }
}

/// Limit of pairs in a topology file, which are kept one by one.
pub(super) const MAX_PAIRS: usize = 1 << 20;
/// Limit of times in a topology file, in nanoseconds: a full frame at 64 kbit/s takes a fifth.
pub(super) const MAX_TIME_NS: u64 = 1_000_000_000;

/// A refused topology, with position and problem. Displayed as `cluster.toml:4: switch …`.
pub type TopologyError = SourceError<TopologyProblem>;

/// Problem of a topology.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TopologyProblem {
    #[error(transparent)]
    Schema(#[from] SchemaProblem),
    #[error("the topology names no switch; add a `[[switch]]` with a name and hosts")]
    NoSwitch,
    #[error("the topology names no host; give at least one switch a `hosts = \"n[0-7]\"`")]
    NoHost,
    #[error("the topology names more than {MAX_HOSTS} hosts; check the ranges")]
    TooManyHosts,
    #[error("hosts of switch `{switch}`: {error}")]
    Hosts { switch: String, error: NodeSetError },
    #[error("a name is empty; use letters, digits and `-_.:`")]
    EmptyName,
    #[error("the name `{name}` may not contain `{}`; use letters, digits and `-_.:`", character.escape_debug())]
    NameCharacter { name: String, character: char },
    #[error("the name `{0}` is longer than {MAX_NAME_BYTES} bytes; shorten it")]
    NameTooLong(String),
    #[error("switch `{0}` exists already; name every switch once")]
    SwitchTwice(String),
    #[error("host `{host}` is on switch `{switch}` already; name every host once")]
    HostTwice { host: String, switch: String },
    #[error("switch `{switch}` links to `{link}`, which is not a switch; expected one of {}", list(.known))]
    UnknownLink {
        switch: String,
        link: String,
        known: Vec<String>,
    },
    #[error("switch `{0}` links to itself; name the switch at the other end of the cable")]
    LinkToItself(String),
    #[error(
        "switch `{switch}` links to `{link}` twice; name each cable once (a bundle is one of the summed rate: \
             {{ to = \"{link}\", rate = \"1gbit\", cables = 2 }})"
    )]
    LinkTwice { switch: String, link: String },
    #[error(
        "the switches {} form a loop; remove one of their links, or name the one that spanning tree blocks under \
         `blocked` instead", list(.0)
    )]
    Loop(Vec<String>),
    #[error(
        "switch `{switch}` links to `{link}`, and the same cable is blocked; name it under `links` or under `blocked`"
    )]
    BlockedLink { switch: String, link: String },
    #[error(
        "the cable from switch `{switch}` to `{link}` is described twice, with {before} and with {rate}; give it one \
         rate"
    )]
    RateTwice {
        switch: String,
        link: String,
        before: String,
        rate: String,
    },
    #[error(
        "the cable from switch `{switch}` to `{link}` is described twice, with latency_ns {before} and {latency_ns}; \
         give it one latency"
    )]
    LatencyTwice {
        switch: String,
        link: String,
        before: u64,
        latency_ns: u64,
    },
    #[error("expected {key} of at most {MAX_TIME_NS}, found {value}; give it in nanoseconds")]
    LongTime { key: &'static str, value: u64 },
    #[error(
        "expected a pair as hosts = [\"n1\", \"n[2-4]\"] or switches = [\"s0\", \"s1\"], with latency_ns or with \
         talk = false: {0}"
    )]
    PairForm(&'static str),
    #[error("the names of a `[[pair]]`: {0}")]
    PairSet(NodeSetError),
    #[error("a `[[pair]]` names the switch `{name}`, which does not exist; expected one of {}", list(.known))]
    UnknownPairSwitch { name: String, known: Vec<String> },
    #[error("`{0}` is at both ends of a `[[pair]]`; name two different ones")]
    PairWithItself(String),
    #[error(
        "the pair of `{one}` and `{other}` is described twice, {before} and {now}; describe it once"
    )]
    PairTwice {
        one: String,
        other: String,
        before: String,
        now: String,
    },
    #[error(
        "the topology names more than {MAX_PAIRS} pairs; name pairs of switches, or give cables a latency_ns"
    )]
    TooManyPairs,
    /// An invalid rate; the sentence says how rates are written.
    #[error("rate: {0}")]
    Rate(String),
    #[error(
        "expected a link as \"s1\" or as {{ to = \"s1\", rate = \"10gbit\", cables = 2, latency_ns = 500000 }}: {0}"
    )]
    LinkForm(String),
    #[error("no switch has a host `{0}`; add it to the hosts of one, or correct the name")]
    NotOnSwitch(String),
    #[error("the name of a `[[host]]`: {0}")]
    HostSet(NodeSetError),
    #[error("host `{0}` has a `[[host]]` already; say all about it in one")]
    HostDescribedTwice(String),
    #[error("expected injection_ns above 0, found 0; leave it out if it is not known")]
    ZeroInjection,
    #[error("no links join {} to switch `{first}`; add a link to each group of switches", list(.islands))]
    Disconnected { first: String, islands: Vec<String> },
    #[error(transparent)]
    Slurm(#[from] SlurmProblem),
    #[error(transparent)]
    Lldp(#[from] LldpProblem),
}

/// Problem of one output of `lldpcli`, or of all of them together.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LldpProblem {
    #[error("expected one output of `lldpcli -f json0 show neighbors` per host, found none")]
    NoFile,
    /// The text is not JSON, or not of `lldpcli`'s form; the message is the JSON parser's.
    #[error("expected the output of `lldpcli -f json0 show neighbors`: {0}")]
    Json(String),
    #[error("`{0}` has an output already; keep one file for each host")]
    FileTwice(String),
    #[error("all outputs are those of switches; add one for each host")]
    NoHost,
    #[error("{} no switch{}; have lldpd run on the host and LLDP sent by the switch for a minute, then collect \
             again", hosts_that_hear(.hosts), on(.interface))]
    NoSwitch {
        hosts: Vec<String>,
        /// The only interface considered, if given.
        interface: Option<String>,
    },
    #[error("the host has the switch `{}` on {} and `{}` on {}, but a host is on one switch: choose the interface with \
             --interface", .first.0, .first.1, .second.0, .second.1)]
    SeveralSwitches {
        /// A switch, and the interface that receives its LLDP frames.
        first: (String, String),
        second: (String, String),
    },
    #[error(
        "`{near}` reports that the cable to `{far}` carries {rate}, and `{far}` that it carries {before}; one output \
         is out of date: collect both again"
    )]
    RateTwice {
        near: String,
        far: String,
        before: String,
        rate: String,
    },
    #[error("no cable is known that joins {} to the switch `{first}`; add the outputs of these switches, or leave out \
             those of all", list(.islands))]
    Islands { first: String, islands: Vec<String> },
}

fn hosts_that_hear(hosts: &[String]) -> String {
    format!(
        "{} {}",
        nodeset::fold(hosts),
        if hosts.len() == 1 { "hears" } else { "hear" }
    )
}

fn on(interface: &Option<String>) -> String {
    interface
        .as_ref()
        .map(|interface| format!(" on {interface}"))
        .unwrap_or_default()
}

/// Problem of Slurm's topology data.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SlurmProblem {
    #[error("expected `KEY=VALUE` such as `Nodes=n[0-7]`, found `{0}`")]
    NoKey(String),
    #[error("`{0}=` has no value; give one, such as `{0}=n[0-7]`")]
    NoValue(String),
    #[error(
        "the value of `{0}=` opens a quotation mark and does not close it; close it on the same line"
    )]
    OpenQuote(String),
    #[error("unknown key `{0}`, expected one of `SwitchName`, `Switches`, `Nodes`, `LinkSpeed`")]
    UnknownKey(String),
    #[error("expected `SwitchName=` at the beginning of the line, found `{0}=`")]
    NoSwitchName(String),
    #[error("`{0}=` stands twice in this line; join its values with a comma")]
    KeyTwice(String),
    #[error("`{0}=` is for Slurm's block plugin; expected the tree plugin's `SwitchName=` lines")]
    BlockPlugin(String),
    /// The text is no `topology.yaml`, or none about switches; the message says what was expected.
    #[error("{0}")]
    Yaml(String),
    #[error(
        "`LinkSpeed={0}` is no rate; write a number of Mbit/s, such as LinkSpeed=10000, or a rate such as 10gbit"
    )]
    LinkSpeed(String),
    #[error("`Include` is not followed; put the `SwitchName=` lines of all files into one")]
    Include,
    #[error("child switches of `{switch}`: {error}")]
    Switches { switch: String, error: NodeSetError },
    #[error("expected lines such as `SwitchName=s0 Nodes=n[0-7]`, found none")]
    NoSwitch,
    #[error("no switch has hosts; give at least one a `Nodes=n[0-7]`")]
    NoNodes,
    #[error("expected lines such as `s0.s4.n3 switch.switch.node`, found none")]
    NoAddress,
    #[error("expected an address and at most a pattern, found a third word `{0}`")]
    ThirdWord(String),
    #[error(
        "expected a pattern of `switch` and a last `node`, such as switch.switch.node, found `{0}`"
    )]
    Pattern(String),
    #[error(
        "the address `{address}` has fewer parts than its pattern `{pattern}`; copy both from one host"
    )]
    ShortAddress { address: String, pattern: String },
    #[error("the address `{0}` names no host; expected one such as s0.s4.n3")]
    NoHost(String),
    #[error(
        "the address goes through several switches at once, `{0}`; only a tree of switches can be read"
    )]
    SeveralSwitches(String),
    #[error(
        "the address `{0}` names no switch, though others do; collect the addresses from one job"
    )]
    NoSwitches(String),
}
