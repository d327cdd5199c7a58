//! The topology file: TOML with `schema = 1` and one `[[switch]]` table per switch.
//!
//! ```toml
//! schema = 1
//! [[switch]]
//! name  = "s0"
//! hosts = "n[0-7]"          # a node set, or a list of them; may be left out
//! links = ["s1", { to = "s2", rate = "10gbit", cables = 2 }] # named from either end or from both; a bundle of two
//! blocked = ["s3"]          # cables that spanning tree keeps from carrying anything; may be left out
//!
//! [[host]]                  # what is special about the hosts of a node set; may be left out, as each of its keys
//! name = "n[3,5]"
//! rate = "100mbit"          # of the host's cable
//! injection_ns = 40000      # how long the host takes to send a frame
//! ```

mod link;
mod write;

use super::build;
use super::draft::{Draft, DraftLink};
use super::error::{TopologyError, TopologyProblem};
use super::nodeset;
use super::tree::Topology;
use crate::natural_order;
use crate::schema::{self, LineStarts};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::HashSet;
use std::fmt;
use toml::Spanned;

impl Topology {
    /// Reads a topology file; `source_name` names it in errors, usually its path.
    ///
    /// # Errors
    /// [`TopologyError`] with source and line, for anything that is not TOML of this form or not a
    /// tree of switches.
    pub fn parse(text: &str, source_name: &str) -> Result<Self, TopologyError> {
        read(text).and_then(build::build).map_err(|error| error.named(source_name))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopologyFile {
    #[serde(rename = "schema")]
    _schema: i64,
    #[serde(default)]
    switch: Vec<SwitchTable>,
    #[serde(default)]
    host: Vec<HostTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchTable {
    name: Spanned<String>,
    #[serde(default)]
    hosts: NodeSets,
    #[serde(default)]
    links: Vec<Spanned<toml::Value>>,
    #[serde(default)]
    blocked: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostTable {
    name: Spanned<String>,
    rate: Option<Spanned<toml::Value>>,
    injection_ns: Option<Spanned<u64>>,
}

/// One node set or a list of them. It is not an untagged enum, because those lose the spans from
/// which error lines come.
#[derive(Default)]
struct NodeSets(Vec<Spanned<String>>);

impl<'de> Deserialize<'de> for NodeSets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The span of a single string is that of the whole value; inside a list each string has its
        // own.
        let whole = Spanned::<OneOrMany>::deserialize(deserializer)?;
        let span = whole.span();
        Ok(match whole.into_inner() {
            OneOrMany::One(text) => Self(vec![Spanned::new(span, text)]),
            OneOrMany::Many(list) => Self(list),
        })
    }
}

enum OneOrMany {
    One(String),
    Many(Vec<Spanned<String>>),
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrManyVisitor)
    }
}

struct OneOrManyVisitor;

impl<'de> Visitor<'de> for OneOrManyVisitor {
    type Value = OneOrMany;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a node set such as \"n[0-7]\" or a list of them")
    }

    fn visit_str<E>(self, text: &str) -> Result<OneOrMany, E> {
        Ok(OneOrMany::One(text.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<OneOrMany, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMany::Many)
    }
}

fn read(text: &str) -> Result<Draft, TopologyError> {
    let file: TopologyFile = schema::read(text)?;
    let lines = LineStarts::of(text);
    let line_of = |value: &Spanned<String>| Some(lines.line_at(value.span().start));
    let mut draft = Draft::default();
    for (id, table) in file.switch.into_iter().enumerate() {
        for set in &table.hosts.0 {
            draft.add_hosts(id, table.name.get_ref(), set.get_ref(), line_of(set))?;
        }
        let link = |value: &Spanned<toml::Value>| {
            let line = lines.line_at(value.span().start);
            link::read(value.get_ref(), line).map_err(|problem| TopologyError::at(line, problem))
        };
        let links = table.links.iter().map(link).collect::<Result<_, _>>()?;
        let blocked = |link: &Spanned<String>| DraftLink::new(link.get_ref().clone(), line_of(link));
        let line = line_of(&table.name);
        let switch = draft.add_switch(table.name.into_inner(), line);
        (switch.links, switch.blocked) = (links, table.blocked.iter().map(blocked).collect());
    }
    draft.sort_hosts();
    describe_hosts(&mut draft, &file.host, &lines)?;
    Ok(draft)
}

fn describe_hosts(draft: &mut Draft, tables: &[HostTable], lines: &LineStarts) -> Result<(), TopologyError> {
    let mut described = HashSet::new();
    for table in tables {
        let line = lines.line_at(table.name.span().start);
        let refuse = |problem| TopologyError::at(line, problem);
        let names = nodeset::expand(table.name.get_ref()).map_err(|error| refuse(TopologyProblem::HostSet(error)))?;
        let at = |offset: usize, problem| TopologyError::at(lines.line_at(offset), problem);
        let rate =
            table.rate.as_ref().map(|rate| link::rate(rate.get_ref()).map_err(|text| at(rate.span().start, text)));
        let rate = rate.transpose()?;
        let injection_ns = table.injection_ns.as_ref().map(|injection| *injection.get_ref());
        if let Some(injection) = table.injection_ns.as_ref().filter(|injection| *injection.get_ref() == 0) {
            return Err(at(injection.span().start, TopologyProblem::ZeroInjection));
        }
        for name in names {
            let place = draft.hosts.binary_search_by(|host| natural_order(&host.name, &name));
            let Ok(place) = place else { return Err(refuse(TopologyProblem::NotOnSwitch(name))) };
            (draft.hosts[place].rate, draft.hosts[place].injection_ns) = (rate, injection_ns);
            if !described.insert(place) {
                return Err(refuse(TopologyProblem::HostDescribedTwice(name)));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
