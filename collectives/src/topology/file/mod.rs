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
use super::nodeset::{self, MAX_HOSTS, natural_order};
use super::{Topology, TopologyError, TopologyProblem};
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
        let lines = Lines::of(text);
        read(text, &lines).and_then(build::build).map_err(named)
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

/// Only what must be known before the rest can be read: another schema may have other keys.
#[derive(Deserialize)]
struct Head {
    schema: Option<Spanned<toml::Value>>,
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

fn read(text: &str, lines: &Lines) -> Result<Draft, TopologyError> {
    let head: Head = toml::from_str(text).map_err(|error| lines.refuse_toml(&error))?;
    check_schema(head.schema, lines)?;
    let file: File = toml::from_str(text).map_err(|error| lines.refuse_toml(&error))?;
    let mut draft = Draft::default();
    for (id, table) in file.switch.into_iter().enumerate() {
        add_hosts(&mut draft, id, &table, lines)?;
        let link = |link: Spanned<String>| DraftLink { line: lines.line_of(&link), to: link.into_inner() };
        let line = lines.line_of(&table.name);
        draft.add_switch(table.name.into_inner(), line).links = table.links.into_iter().map(link).collect();
    }
    // Stable: of a host named twice, the one further down in the file is the error.
    draft.hosts.sort_by(|left, right| natural_order(&left.name, &right.name));
    Ok(draft)
}

fn check_schema(schema: Option<Spanned<toml::Value>>, lines: &Lines) -> Result<(), TopologyError> {
    let Some(schema) = schema else {
        return Err(lines.refuse(Some(1), TopologyProblem::NoSchema));
    };
    if schema.get_ref().as_integer() == Some(1) {
        return Ok(());
    }
    Err(lines.refuse(lines.line_of(&schema), TopologyProblem::WrongSchema(schema.get_ref().to_string())))
}

fn add_hosts(draft: &mut Draft, switch: usize, table: &SwitchTable, lines: &Lines) -> Result<(), TopologyError> {
    for set in &table.hosts.0 {
        let line = lines.line_of(set);
        let names = nodeset::expand(set.get_ref())
            .map_err(|error| lines.refuse(line, TopologyProblem::Hosts { switch: table.name.get_ref().clone(), error }))?;
        if draft.hosts.len() + names.len() > MAX_HOSTS {
            return Err(lines.refuse(line, TopologyProblem::TooManyHosts));
        }
        draft.hosts.extend(names.into_iter().map(|name| DraftHost { name, switch, line }));
    }
    Ok(())
}

/// Where the lines of a text begin, so that byte offsets can be told as lines.
struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    fn of(text: &str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(offset, _)| offset + 1);
        Self { starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    fn line_at(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset)
    }

    fn line_of<T>(&self, value: &Spanned<T>) -> Option<usize> {
        Some(self.line_at(value.span().start))
    }

    fn refuse(&self, line: Option<usize>, problem: TopologyProblem) -> TopologyError {
        TopologyError { source_name: None, line, problem: Box::new(problem) }
    }

    fn refuse_toml(&self, error: &toml::de::Error) -> TopologyError {
        let message = error.message().replace('\n', ", ");
        self.refuse(error.span().map(|span| self.line_at(span.start)), TopologyProblem::Toml(message))
    }
}

#[cfg(test)]
mod tests;
