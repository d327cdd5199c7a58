//! The topology file: TOML with `schema = 1` and one `[[switch]]` table per switch.
//!
//! ```toml
//! schema = 1
//! [[switch]]
//! name  = "s0"
//! hosts = "n[0-7]"          # a node set, or a list of them; may be left out
//! links = ["s1"]            # cables to other switches, named from either end or from both
//! ```

use super::build::{self, Draft, DraftHost, DraftLink};
use super::nodeset::{self, MAX_HOSTS};
use super::{Topology, TopologyError, TopologyProblem};
use crate::natural_order::natural_order;
use crate::schema::{self, Lines};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use toml::Spanned;

impl Topology {
    /// Reads a topology file; `source_name` is what errors call it, usually its path.
    ///
    /// # Errors
    /// [`TopologyError`] with source and line, for anything that is not TOML of this form or not a tree of switches.
    pub fn parse(text: &str, source_name: &str) -> Result<Self, TopologyError> {
        let named = |error| TopologyError { source_name: Some(source_name.to_string()), ..error };
        read(text).and_then(build::build).map_err(named)
    }

    /// Writes the topology as a file that [`Topology::parse`] reads: each cable once, hosts as compact node sets.
    ///
    /// Reading it back gives an equal topology if hosts are in natural order of their names, as they always are unless
    /// [`Topology::single_switch`] was given another order.
    pub fn to_toml(&self) -> String {
        // Names consist of letters, digits and `-_.:`: nothing in them needs escaping.
        let mut text = String::from("schema = 1\n");
        for (id, name) in self.switches().iter().enumerate() {
            text += &format!("\n[[switch]]\nname = \"{name}\"\n");
            let hosts: Vec<&String> = self.hosts_on(id).map(|host| &self.hosts()[host]).collect();
            if !hosts.is_empty() {
                text += &format!("hosts = \"{}\"\n", nodeset::fold(&hosts));
            }
            let above = self.neighbours(id).iter().filter(|&&other| other > id);
            let links: Vec<String> = above.map(|&other| format!("\"{}\"", self.switches()[other])).collect();
            if !links.is_empty() {
                text += &format!("links = [{}]\n", links.join(", "));
            }
        }
        text
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "schema")]
    _schema: i64,
    #[serde(default)]
    switch: Vec<SwitchTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchTable {
    name: Spanned<String>,
    #[serde(default)]
    hosts: NodeSets,
    #[serde(default)]
    links: Vec<Spanned<String>>,
}

/// One node set or a list of them. Not an untagged enum: those lose the spans that error lines come from.
#[derive(Default)]
struct NodeSets(Vec<Spanned<String>>);

impl<'de> Deserialize<'de> for NodeSets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The span of a single string is that of the whole value; inside a list each string has its own.
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
    let file: File = schema::read(text).map_err(|(line, problem)| refuse(line, TopologyProblem::Schema(problem)))?;
    let lines = Lines::of(text);
    let line_of = |value: &Spanned<String>| Some(lines.at(value.span().start));
    let mut draft = Draft::default();
    for (id, table) in file.switch.into_iter().enumerate() {
        for set in &table.hosts.0 {
            let line = line_of(set);
            add_hosts(&mut draft, id, table.name.get_ref(), set.get_ref(), line).map_err(|problem| refuse(line, problem))?;
        }
        let link = |link: Spanned<String>| DraftLink { line: line_of(&link), to: link.into_inner() };
        let line = line_of(&table.name);
        draft.add_switch(table.name.into_inner(), line).links = table.links.into_iter().map(link).collect();
    }
    // Stable: of a host named twice, the one further down in the file is the error.
    draft.hosts.sort_by(|left, right| natural_order(&left.name, &right.name));
    Ok(draft)
}

/// Adds the hosts of one node set, which stands in `line`, to the switch numbered `id`.
fn add_hosts(draft: &mut Draft, id: usize, switch: &str, set: &str, line: Option<usize>) -> Result<(), TopologyProblem> {
    let names = nodeset::expand(set).map_err(|error| TopologyProblem::Hosts { switch: switch.to_string(), error })?;
    if draft.hosts.len() + names.len() > MAX_HOSTS {
        return Err(TopologyProblem::TooManyHosts);
    }
    draft.hosts.extend(names.into_iter().map(|name| DraftHost { name, switch: id, line }));
    Ok(())
}

/// An error in a file that [`Topology::parse`] has still to name.
fn refuse(line: Option<usize>, problem: TopologyProblem) -> TopologyError {
    TopologyError { source_name: None, line, problem: Box::new(problem) }
}

#[cfg(test)]
mod tests;
