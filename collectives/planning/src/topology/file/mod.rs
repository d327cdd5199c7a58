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

use super::build::{self, Draft, DraftLink};
use super::{Topology, TopologyError, TopologyProblem, nodeset};
use crate::source::{self, LineStarts};
use crate::{format_rate, natural_order, parse_rate};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use toml::{Spanned, Value};

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

/// One node set or a list of them; no untagged enum, because those lose the spans from which error
/// lines come.
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
    let file: TopologyFile = source::read(text)?;
    let lines = LineStarts::of(text);
    let line_of = |value: &Spanned<String>| Some(lines.line_at(value.span().start));
    let mut draft = Draft::default();
    for (id, table) in file.switch.into_iter().enumerate() {
        for set in &table.hosts.0 {
            draft.add_hosts(id, table.name.get_ref(), set.get_ref(), line_of(set))?;
        }
        let link = |value: &Spanned<toml::Value>| {
            let line = lines.line_at(value.span().start);
            read_link(value.get_ref(), line).map_err(|problem| TopologyError::at(line, problem))
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
            table.rate.as_ref().map(|rate| parse_link_rate(rate.get_ref()).map_err(|text| at(rate.span().start, text)));
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

const MAX_CABLES: i64 = 64;

fn read_link(value: &Value, line: usize) -> Result<DraftLink, TopologyProblem> {
    let refuse = |text: String| Err(TopologyProblem::LinkForm(text));
    let table = match value {
        Value::String(to) => return Ok(DraftLink::new(to.clone(), Some(line))),
        Value::Table(table) => table,
        other => return refuse(format!("found {}", other.type_str())),
    };
    if let Some(key) = table.keys().find(|key| !["to", "rate", "cables"].contains(&key.as_str())) {
        return refuse(format!("unknown key `{key}`"));
    }
    let Some(to) = table.get("to").and_then(Value::as_str) else { return refuse("`to` names no switch".to_owned()) };
    let cables = match table.get("cables").map(Value::as_integer) {
        None => 1,
        Some(Some(cables @ 1..=MAX_CABLES)) => cables as u64,
        Some(_) => return refuse(format!("`cables` is no number from 1 to {MAX_CABLES}")),
    };
    let rate = table.get("rate").map(parse_link_rate).transpose()?.map(|rate| rate * cables);
    Ok(DraftLink { to: to.to_owned(), line: Some(line), rate })
}

fn parse_link_rate(value: &Value) -> Result<u64, TopologyProblem> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if value.is_str() {
        return parse_rate(&text).map_err(TopologyProblem::Rate);
    }
    Err(TopologyProblem::Rate(format!("`{text}` has no unit; write it as \"{text}mbit\" if that is what it means")))
}

impl Topology {
    /// Writes the topology as a file that [`Topology::parse`] reads: each cable once, hosts as
    /// compact node sets.
    ///
    /// Reading it back gives an equal topology if hosts are in natural order of their names, as
    /// they are unless [`Topology::single_switch`] was given another order.
    pub fn to_toml(&self) -> String {
        // Names consist of letters, digits and `-_.:`, so no escaping is needed.
        let mut text = String::from("schema = 1\n");
        for (id, name) in self.switches().iter().enumerate() {
            text += &format!("\n[[switch]]\nname = \"{name}\"\n");
            let hosts: Vec<&String> = self.hosts_on(id).map(|host| &self.hosts()[host]).collect();
            if !hosts.is_empty() {
                text += &format!("hosts = \"{}\"\n", nodeset::fold(&hosts));
            }
            let above = self.neighbours(id).iter().filter(|&&other| other > id);
            text += &list("links", above.map(|&other| self.link(id, other)).collect());
            let blocked = self.blocked().iter().filter(|&&(low, _)| low == id);
            text += &list("blocked", blocked.map(|&(_, high)| format!("\"{}\"", self.switches()[high])).collect());
        }
        text + &self.host_tables()
    }

    fn link(&self, from: usize, to: usize) -> String {
        let name = &self.switches()[to];
        match self.cable_rate(from, to) {
            None => format!("\"{name}\""),
            Some(rate) => format!("{{ to = \"{name}\", rate = \"{}\" }}", format_rate(rate)),
        }
    }

    fn host_tables(&self) -> String {
        let mut alike: BTreeMap<(Option<u64>, Option<u64>), Vec<&String>> = BTreeMap::new();
        for (host, name) in self.hosts().iter().enumerate() {
            alike.entry((self.host_rate(host), self.injection_ns(host))).or_default().push(name);
        }
        alike.remove(&(None, None));
        let table = |((rate, injection_ns), names): (&(Option<u64>, Option<u64>), &Vec<&String>)| {
            let rate = rate.map(|rate| format!("rate = \"{}\"\n", format_rate(rate))).unwrap_or_default();
            let injection = injection_ns.map(|time| format!("injection_ns = {time}\n")).unwrap_or_default();
            format!("\n[[host]]\nname = \"{}\"\n{rate}{injection}", nodeset::fold(names))
        };
        alike.iter().map(table).collect()
    }
}

fn list(key: &str, entries: Vec<String>) -> String {
    if entries.is_empty() { String::new() } else { format!("{key} = [{}]\n", entries.join(", ")) }
}

#[cfg(test)]
mod tests;
