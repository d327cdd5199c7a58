//! The topology file: TOML with `schema = 1` and one `[[switch]]` table per switch.
//!
//! ```toml
//! schema = 1
//! [[switch]]
//! name  = "s0"
//! hosts = "n[0-7]"          # a node set, or a list of them; may be left out
//! links = ["s1"]            # cables to other switches, named from either end or from both
//! ```

use super::build::{self, Draft, DraftLink};
use super::error::TopologyError;
use super::nodeset;
use super::tree::Topology;
use crate::schema::{self, LineStarts};
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
        read(text).and_then(build::build).map_err(|error| error.named(source_name))
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
struct TopologyFile {
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
    let file: TopologyFile = schema::read(text)?;
    let lines = LineStarts::of(text);
    let line_of = |value: &Spanned<String>| Some(lines.line_at(value.span().start));
    let mut draft = Draft::default();
    for (id, table) in file.switch.into_iter().enumerate() {
        for set in &table.hosts.0 {
            draft.add_hosts(id, table.name.get_ref(), set.get_ref(), line_of(set))?;
        }
        let link = |link: Spanned<String>| DraftLink { line: line_of(&link), to: link.into_inner() };
        let line = line_of(&table.name);
        draft.add_switch(table.name.into_inner(), line).links = table.links.into_iter().map(link).collect();
    }
    draft.sort_hosts();
    Ok(draft)
}

#[cfg(test)]
mod tests;
