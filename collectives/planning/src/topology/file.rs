//! The topology file: TOML with `schema = 1` and one `[[switch]]` table per switch.
//!
//! ```toml
//! schema = 1
//! [[switch]]
//! name  = "s0"
//! hosts = "n[0-7]"          # a node set, or a list of them; may be left out
//! links = ["s1", { to = "s2", rate = "10gbit", cables = 2 }] # named from either end or from both; a bundle of two
//!                           # with latency_ns = 500000 a cable is half a millisecond long
//! blocked = ["s3"]          # cables that spanning tree keeps from carrying anything; may be left out
//!
//! [[host]]                  # what is special about the hosts of a node set; may be left out, as each of its keys
//! name = "n[3,5]"
//! rate = "100mbit"          # of the host's cable
//! injection_ns = 150000     # how long the host takes to send a frame
//! latency_ns = 20000        # of the host's cable
//!
//! [[pair]]                  # each of one set with each of another; or switches = ["s0", "s2"]
//! hosts = ["n1", "n[2-4]"]
//! latency_ns = 1000000      # beside that of the cables between them; or talk = false
//! ```

use super::build::{self, Draft, DraftLink};
use super::tree::{NEVER, Pairs};
use super::{MAX_PAIRS, MAX_TIME_NS, Topology, TopologyError, TopologyProblem, nodeset};
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
        read(text)
            .and_then(build::build)
            .map_err(|error| error.named(source_name))
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
    #[serde(default)]
    pair: Vec<Spanned<PairTable>>,
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
    latency_ns: Option<Spanned<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PairTable {
    hosts: Option<Vec<String>>,
    switches: Option<Vec<String>>,
    latency_ns: Option<u64>,
    talk: Option<bool>,
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
        let blocked =
            |link: &Spanned<String>| DraftLink::new(link.get_ref().clone(), line_of(link));
        let line = line_of(&table.name);
        let switch = draft.add_switch(table.name.into_inner(), line);
        (switch.links, switch.blocked) = (links, table.blocked.iter().map(blocked).collect());
    }
    draft.sort_hosts();
    describe_hosts(&mut draft, &file.host, &lines)?;
    draft.pairs = read_pairs(&draft, &file.pair, &lines)?;
    Ok(draft)
}

/// Reads the pairs. A pair of hosts may not contradict that of their switches.
fn read_pairs(
    draft: &Draft,
    tables: &[Spanned<PairTable>],
    lines: &LineStarts,
) -> Result<Pairs, TopologyError> {
    let (mut pairs, mut count) = (Pairs::default(), 0usize);
    let of_switches = |table: &&Spanned<PairTable>| table.get_ref().switches.is_some();
    let (switches, hosts): (Vec<_>, Vec<_>) = tables.iter().partition(of_switches);
    let names = draft.switches.iter().map(|switch| switch.name.as_str());
    let by_name: BTreeMap<&str, usize> = names.zip(0..).collect();
    for table in switches.into_iter().chain(hosts) {
        let refuse = |problem| TopologyError::at(lines.line_at(table.span().start), problem);
        let table = table.get_ref();
        let latency_ns = table.latency_ns().map_err(refuse)?;
        let [ones, others] = table.ends(draft, &by_name).map_err(refuse)?;
        count = count.saturating_add(ones.len().saturating_mul(others.len()));
        if count > MAX_PAIRS {
            return Err(refuse(TopologyProblem::TooManyPairs));
        }
        for (&one, &other) in ones
            .iter()
            .flat_map(|one| others.iter().map(move |other| (one, other)))
        {
            let ends = (one.min(other), one.max(other));
            let before = if table.switches.is_some() {
                pairs.switches.insert(ends, latency_ns)
            } else {
                let [one, other] = [one, other].map(|host| draft.hosts[host].switch);
                let of_switches = pairs.switches.get(&(one.min(other), one.max(other)));
                let of_switches = of_switches.copied();
                pairs.hosts.insert(ends, latency_ns).or(of_switches)
            };
            let [one, other] = [one, other].map(|id| table.name(draft, id));
            if one == other {
                return Err(refuse(TopologyProblem::PairWithItself(one)));
            }
            if let Some(before) = before.filter(|&before| before != latency_ns) {
                let [before, now] = [before, latency_ns].map(pair_text);
                return Err(refuse(TopologyProblem::PairTwice {
                    one,
                    other,
                    before,
                    now,
                }));
            }
        }
    }
    Ok(pairs)
}

fn pair_text(latency_ns: u64) -> String {
    match latency_ns {
        NEVER => "with talk = false".to_owned(),
        nanoseconds => format!("with latency_ns = {nanoseconds}"),
    }
}

impl PairTable {
    fn latency_ns(&self) -> Result<u64, TopologyProblem> {
        match (self.latency_ns, self.talk) {
            (Some(_), Some(false)) => Err(TopologyProblem::PairForm("it has both")),
            (None, None) => Err(TopologyProblem::PairForm("it has neither")),
            (None, Some(false)) => Ok(NEVER),
            (latency_ns, _) => bounded("latency_ns", latency_ns.unwrap_or(0)),
        }
    }

    /// Returns the ids at both ends.
    fn ends(
        &self,
        draft: &Draft,
        switches: &BTreeMap<&str, usize>,
    ) -> Result<[Vec<usize>; 2], TopologyProblem> {
        let (sets, are_switches) = match (&self.hosts, &self.switches) {
            (Some(sets), None) => (sets, false),
            (None, Some(sets)) => (sets, true),
            _ => return Err(TopologyProblem::PairForm("name either hosts or switches")),
        };
        let [one, other] = &sets[..] else {
            return Err(TopologyProblem::PairForm("name two ends"));
        };
        let find = |name: String| {
            if are_switches {
                find_switch(switches, name)
            } else {
                find_host(draft, name)
            }
        };
        let ids = |set: &String| {
            let names = nodeset::expand(set).map_err(TopologyProblem::PairSet)?;
            names.into_iter().map(find).collect::<Result<Vec<_>, _>>()
        };
        Ok([ids(one)?, ids(other)?])
    }

    fn name(&self, draft: &Draft, id: usize) -> String {
        match &self.switches {
            Some(_) => draft.switches[id].name.clone(),
            None => draft.hosts[id].name.clone(),
        }
    }
}

fn find_switch(switches: &BTreeMap<&str, usize>, name: String) -> Result<usize, TopologyProblem> {
    let found = switches.get(name.as_str()).copied();
    found.ok_or_else(|| TopologyProblem::UnknownPairSwitch {
        known: switches.keys().map(|&known| known.to_owned()).collect(),
        name,
    })
}

fn find_host(draft: &Draft, name: String) -> Result<usize, TopologyProblem> {
    draft
        .hosts
        .binary_search_by(|host| natural_order(&host.name, &name))
        .map_err(|_| TopologyProblem::NotOnSwitch(name))
}

fn bounded(key: &'static str, value: u64) -> Result<u64, TopologyProblem> {
    if value <= MAX_TIME_NS {
        Ok(value)
    } else {
        Err(TopologyProblem::LongTime { key, value })
    }
}

fn describe_hosts(
    draft: &mut Draft,
    tables: &[HostTable],
    lines: &LineStarts,
) -> Result<(), TopologyError> {
    let mut described = HashSet::new();
    for table in tables {
        let line = lines.line_at(table.name.span().start);
        let refuse = |problem| TopologyError::at(line, problem);
        let names = nodeset::expand(table.name.get_ref())
            .map_err(|error| refuse(TopologyProblem::HostSet(error)))?;
        let at = |offset: usize, problem| TopologyError::at(lines.line_at(offset), problem);
        let rate = table.rate.as_ref().map(|rate| {
            parse_link_rate(rate.get_ref()).map_err(|text| at(rate.span().start, text))
        });
        let rate = rate.transpose()?;
        let injection_ns = table
            .injection_ns
            .as_ref()
            .map(|injection| *injection.get_ref());
        if let Some(injection) = table
            .injection_ns
            .as_ref()
            .filter(|injection| *injection.get_ref() == 0)
        {
            return Err(at(injection.span().start, TopologyProblem::ZeroInjection));
        }
        let times = [
            ("injection_ns", &table.injection_ns),
            ("latency_ns", &table.latency_ns),
        ];
        for (key, time) in times {
            let Some(time) = time else { continue };
            bounded(key, *time.get_ref()).map_err(|problem| at(time.span().start, problem))?;
        }
        let latency_ns = table.latency_ns.as_ref().map_or(0, |time| *time.get_ref());
        for name in names {
            let place = find_host(draft, name.clone()).map_err(refuse)?;
            let host = &mut draft.hosts[place];
            (host.rate, host.injection_ns, host.latency_ns) = (rate, injection_ns, latency_ns);
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
    if let Some(key) = table
        .keys()
        .find(|key| !["to", "rate", "cables", "latency_ns"].contains(&key.as_str()))
    {
        return refuse(format!("unknown key `{key}`"));
    }
    let Some(to) = table.get("to").and_then(Value::as_str) else {
        return refuse("`to` names no switch".to_owned());
    };
    let cables = match table.get("cables").map(Value::as_integer) {
        None => 1,
        Some(Some(cables @ 1..=MAX_CABLES)) => cables as u64,
        Some(_) => return refuse(format!("`cables` is no number from 1 to {MAX_CABLES}")),
    };
    let rate = table
        .get("rate")
        .map(parse_link_rate)
        .transpose()?
        .map(|rate| rate * cables);
    let latency_ns = match table.get("latency_ns").map(Value::as_integer) {
        None => None,
        Some(Some(latency_ns @ 0..)) => Some(bounded("latency_ns", latency_ns as u64)?),
        Some(_) => return refuse("`latency_ns` is no number of nanoseconds".to_owned()),
    };
    Ok(DraftLink {
        rate,
        latency_ns,
        ..DraftLink::new(to.to_owned(), Some(line))
    })
}

fn parse_link_rate(value: &Value) -> Result<u64, TopologyProblem> {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    if value.is_str() {
        return parse_rate(&text).map_err(TopologyProblem::Rate);
    }
    Err(TopologyProblem::Rate(format!(
        "`{text}` has no unit; write it as \"{text}mbit\" if you mean that"
    )))
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
            text += &list(
                "blocked",
                blocked
                    .map(|&(_, high)| format!("\"{}\"", self.switches()[high]))
                    .collect(),
            );
        }
        text + &self.host_tables() + &self.pair_tables()
    }

    fn link(&self, from: usize, to: usize) -> String {
        let name = &self.switches()[to];
        let rate = self.cable_rate(from, to);
        let rate = rate.map(|rate| format!(", rate = \"{}\"", format_rate(rate)));
        let latency = match self.cable_latency_ns(from, to) {
            0 => None,
            latency_ns => Some(format!(", latency_ns = {latency_ns}")),
        };
        match rate.into_iter().chain(latency).collect::<String>() {
            keys if keys.is_empty() => format!("\"{name}\""),
            keys => format!("{{ to = \"{name}\"{keys} }}"),
        }
    }

    fn host_tables(&self) -> String {
        type Known = (Option<u64>, Option<u64>, u64);
        let mut alike: BTreeMap<Known, Vec<&String>> = BTreeMap::new();
        for (host, name) in self.hosts().iter().enumerate() {
            let known = (
                self.host_rate(host),
                self.injection_ns(host),
                self.host_latency_ns(host),
            );
            alike.entry(known).or_default().push(name);
        }
        alike.remove(&(None, None, 0));
        let table = |(&(rate, injection_ns, latency_ns), names): (&Known, &Vec<&String>)| {
            let rate = rate
                .map(|rate| format!("rate = \"{}\"\n", format_rate(rate)))
                .unwrap_or_default();
            let injection = injection_ns
                .map(|time| format!("injection_ns = {time}\n"))
                .unwrap_or_default();
            let latency = match latency_ns {
                0 => String::new(),
                time => format!("latency_ns = {time}\n"),
            };
            format!(
                "\n[[host]]\nname = \"{}\"\n{rate}{injection}{latency}",
                nodeset::fold(names)
            )
        };
        alike.iter().map(table).collect()
    }
}

fn list(key: &str, entries: Vec<String>) -> String {
    if entries.is_empty() {
        String::new()
    } else {
        format!("{key} = [{}]\n", entries.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{BUILTIN_NAMES, TopologyProblem, arbitrary};
    use proptest::prelude::*;

    fn refusal(text: &str) -> String {
        Topology::parse(text, "rack.toml")
            .expect_err(text)
            .to_string()
    }

    #[test]
    fn a_file_in_the_documented_form() {
        let text = r#"
        schema = 1
        [[switch]]
        name  = "s0"
        hosts = "n[0-2]"          # node set
        links = ["s1"]
        [[switch]]
        name  = "s1"
        hosts = ["n[10-11]", "login"]
        links = ["s0", "spare"]   # s0 is the same cable as above
        [[switch]]
        name  = "spare"
    "#;
        let topology = Topology::parse(text, "rack.toml").expect("a valid file");
        assert_eq!(topology.switches(), ["s0", "s1", "spare"]);
        assert_eq!(topology.hosts(), ["login", "n0", "n1", "n2", "n10", "n11"]);
        assert_eq!(topology.cables(), [(0, 1), (1, 2)]);
        assert_eq!(topology.neighbours(1), [0, 2]);
        assert_eq!(topology.hosts_on(1).collect::<Vec<_>>(), [0, 4, 5]);
        assert_eq!(topology.hosts_on(2).count(), 0);
    }

    #[test]
    fn host_ids_do_not_depend_on_how_the_file_is_spelled() {
        let ordered = "schema = 1\n[[switch]]\nname = 's0'\nhosts = 'n[0-11]'";
        let shuffled = "schema = 1\n[[switch]]\nname = 's0'\nhosts = ['n[10-11,5-9]', 'n4,n[0-3]']";
        assert_eq!(
            Topology::parse(ordered, "a"),
            Topology::parse(shuffled, "b")
        );
    }

    #[test]
    fn the_test_beds_round_trip() {
        for name in BUILTIN_NAMES {
            let bed = Topology::builtin(name).expect(name);
            assert_eq!(Topology::parse(&bed.to_toml(), name), Ok(bed));
        }
        let row = Topology::builtin("fig9-5").expect("fig9-5").to_toml();
        assert!(
            row.contains("name = \"s1\"\nhosts = \"n[1,5,9,13,17,21,25,29]\"\nlinks = [\"s2\"]\n"),
            "{row}"
        );
    }

    #[test]
    fn an_error_of_the_toml_parser_is_reported_with_its_line() {
        let cases = [
            ("schema = 1\n[[switch]\n", "rack.toml:2: "),
            (
                "schema = 1\n\n[[switch]]\nname = 's0'\nhots = 'n1'\n",
                "rack.toml:5: unknown field `hots`, expected one of `name`, `hosts`, `links`",
            ),
            (
                "schema = 1\nswitches = 3\n",
                "rack.toml:2: unknown field `switches`, expected one of `schema`, `switch`, `host`",
            ),
            (
                "schema = 1\n[[switch]]\nhosts = 'n1'\n",
                "rack.toml:2: missing field `name`",
            ),
            (
                "schema = 1\n[[switch]]\nname = 7\n",
                "rack.toml:3: invalid type: integer `7`, expected a string",
            ),
            (
                "schema = 1\n[[switch]]\nname = 's0'\nhosts = 7\n",
                "rack.toml:4: invalid type: integer `7`, expected a node set such as \"n[0-7]\" or a list of them",
            ),
            (
                "schema = 1\n[[switch]]\nname = 's0'\nhosts = [\n'n1',\n7]\n",
                "rack.toml:6: invalid type: integer `7`, expected a string",
            ),
            (
                "schema = 1\n[[switch]]\nname = 's0'\nlinks = 's1'\n",
                "rack.toml:4: invalid type: string \"s1\", expected a sequence",
            ),
            (
                "schema = 1\nswitch = 's0'\n",
                "rack.toml:2: invalid type: string \"s0\", expected a sequence",
            ),
        ];
        for (text, message) in cases {
            assert!(
                refusal(text).starts_with(message),
                "{text}\n{}",
                refusal(text)
            );
        }
    }

    #[test]
    fn the_schema_is_judged_before_the_keys_it_defines() {
        assert_eq!(
            refusal(""),
            "rack.toml:1: expected `schema = 1`, which says how to read this file, but there is no `schema`"
        );
        assert_eq!(
            refusal("# new\nschema = 2\nvlan = 7\n"),
            "rack.toml:2: expected `schema = 1`, found `schema = 2`; write the file anew with this version"
        );
        assert_eq!(
            refusal("schema = '1'\n"),
            "rack.toml:1: expected `schema = 1`, found `schema = \"1\"`; write the file anew with this version"
        );
    }

    fn switches(tables: &[(&str, &str, &str)]) -> String {
        let table = |(name, hosts, links): &(&str, &str, &str)| {
            let links: Vec<String> = links
                .split_whitespace()
                .map(|link| format!("'{link}'"))
                .collect();
            format!(
                "{{ name = '{name}', hosts = ['{hosts}'], links = [{}] }},\n",
                links.join(", ")
            )
        };
        format!(
            "schema = 1\nswitch = [{}]",
            tables.iter().map(table).collect::<String>()
        )
    }

    #[test]
    fn names_must_be_usable_and_unique() {
        assert_eq!(
            refusal("schema = 1"),
            "rack.toml: the topology names no switch; add a `[[switch]]` with a name and hosts"
        );
        assert_eq!(
            refusal("schema = 1\n[[switch]]\nname = 's0'"),
            "rack.toml: the topology names no host; give at least one switch a `hosts = \"n[0-7]\"`"
        );
        assert_eq!(
            refusal(&switches(&[("s0", "n1", "s1"), ("s0", "n2", "")])),
            "rack.toml:3: switch `s0` exists already; name every switch once"
        );
        assert_eq!(
            refusal(&switches(&[("s0", "n[1-3]", "s1"), ("s1", "x,n2", "")])),
            "rack.toml:3: host `n2` is on switch `s0` already; name every host once"
        );
        assert_eq!(
            refusal(&switches(&[("s[0]", "n1", "")])),
            "rack.toml:2: the name `s[0]` may not contain `[`; use letters, digits and `-_.:`"
        );
        assert_eq!(
            refusal(&switches(&[("s0", "n1", "s1"), ("s1", "n[4-", "")])),
            "rack.toml:3: hosts of switch `s1`: node set, character 5: expected the last number of the range, found \
             the end"
        );
        assert_eq!(
            refusal(&switches(&[
                ("s0", "n[1-1000000]", "s1"),
                ("s1", "m[1-1000000]", "")
            ])),
            "rack.toml:3: the topology names more than 1048576 hosts; check the ranges"
        );
    }

    #[test]
    fn links_must_make_a_tree() {
        assert_eq!(
            refusal(&switches(&[("s0", "n1", "s1"), ("s1", "n2", "s7")])),
            "rack.toml:3: switch `s1` links to `s7`, which is not a switch; expected one of `s0`, `s1`"
        );
        assert_eq!(
            refusal(&switches(&[("s0", "n1", "s0")])),
            "rack.toml:2: switch `s0` links to itself; name the switch at the other end of the cable"
        );
        assert_eq!(
            refusal(&switches(&[("s0", "n1", "s1 s1"), ("s1", "n2", "")])),
            "rack.toml:2: switch `s0` links to `s1` twice; name each cable once (a bundle is one \
         of the summed rate: { to = \"s1\", rate = \"1gbit\", cables = 2 })"
        );
        let loop_with_a_tail = [
            ("s0", "n1", "s1"),
            ("s1", "n2", "s2"),
            ("s2", "n3", "s3"),
            ("s3", "n4", "s1"),
        ];
        assert_eq!(
            refusal(&switches(&loop_with_a_tail)),
            "rack.toml:5: the switches `s1`, `s2`, `s3` form a loop; remove one of their links, or name the one \
         that spanning tree blocks under `blocked` instead"
        );
        assert_eq!(
            refusal(&switches(&[
                ("s0", "n1", ""),
                ("s1", "n2", "s2"),
                ("s2", "n3", "")
            ])),
            "rack.toml:3: no links join `s1`, `s2` to switch `s0`; add a link to each group of switches"
        );
    }

    const RATES: &str = "schema = 1
[[switch]]
name = \"a\"
hosts = \"n[0-3]\"
links = [{ to = \"b\", rate = \"10gbit\" }]
blocked = [\"c\"]

[[switch]]
name = \"b\"
links = [\"c\"]

[[switch]]
name = \"c\"
hosts = \"m\"

[[host]]
name = \"n2\"
injection_ns = 40000

[[host]]
name = \"n[1,3]\"
rate = \"100mbit\"
injection_ns = 40000
";

    #[test]
    fn rates_injection_times_and_blocked_cables_are_read_as_they_are_written() {
        let topology = Topology::parse(RATES, "rack.toml").expect("a valid file");
        assert_eq!(
            (topology.cable_rate(1, 0), topology.cable_rate(1, 2)),
            (Some(10_000_000_000), None)
        );
        assert_eq!(
            (topology.cables(), topology.blocked()),
            (&[(0, 1), (1, 2)][..], &[(0, 2)][..])
        );
        let known = |name: &str| {
            let host = topology.host_named(name).expect(name);
            (topology.host_rate(host), topology.injection_ns(host))
        };
        assert_eq!(known("n1"), (Some(100_000_000), Some(40_000)));
        assert_eq!(
            (known("n2"), known("m")),
            ((None, Some(40_000)), (None, None))
        );
        let written = topology.to_toml().replace("schema = 1\n\n", "schema = 1\n");
        assert_eq!(written, RATES);
        // A bundle of cables is one of the summed rate; either end may leave it out.
        let bundle = RATES
            .replace("rate = \"10gbit\"", "rate = \"2.5gbit\", cables = 4")
            .replace("links = [\"c\"]", "links = [\"a\", \"c\"]");
        assert_eq!(
            Topology::parse(&bundle, "rack.toml").expect("a bundle"),
            topology
        );
    }

    #[test]
    fn impossible_values_of_cables_and_hosts_are_refused_with_their_line() {
        let refused = |from: &str, to: &str| {
            assert!(RATES.contains(from), "{from}");
            refusal(&RATES.replacen(from, to, 1))
        };
        let twice = refused(
            "links = [\"c\"]",
            "links = [\"c\", { to = \"a\", rate = \"1gbit\" }]",
        );
        assert_eq!(
            twice,
            "rack.toml:10: the cable from switch `b` to `a` is described twice, with 10gbit and with 1gbit; give it \
             one rate"
        );
        let no_rate =
            "is no rate; write a number with its unit, such as 100mbit, 2.5gbit or 50MB/s";
        assert_eq!(
            refused("\"10gbit\"", "\"fast\""),
            format!("rack.toml:5: rate: `fast` {no_rate}")
        );
        assert_eq!(
            refused("\"100mbit\"", "\"-1mbit\""),
            format!("rack.toml:22: rate: `-1mbit` {no_rate}")
        );
        let bare =
            "rack.toml:22: rate: `100` has no unit; write it as \"100mbit\" if you mean that";
        assert_eq!(refused("\"100mbit\"", "100"), bare);
        let form = "rack.toml:5: expected a link as \"s1\" or as { to = \"s1\", rate = \"10gbit\", cables = 2, \
                    latency_ns = 500000 }: ";
        let link = "{ to = \"b\", rate = \"10gbit\" }";
        assert_eq!(refused(link, "7"), format!("{form}found integer"));
        assert_eq!(
            refused(link, "{ rate = \"1gbit\" }"),
            format!("{form}`to` names no switch")
        );
        assert_eq!(
            refused(link, "{ to = \"b\", speed = 3 }"),
            format!("{form}unknown key `speed`")
        );
        assert_eq!(
            refused(link, "{ to = \"b\", cables = 0 }"),
            format!("{form}`cables` is no number from 1 to 64")
        );
        let both = "rack.toml:6: switch `a` links to `b`, and the same cable is blocked; name it under `links` or \
                    under `blocked`";
        assert_eq!(refused("blocked = [\"c\"]", "blocked = [\"b\"]"), both);
        assert!(
            refused("blocked = [\"c\"]", "blocked = [\"x\"]")
                .starts_with("rack.toml:6: switch `a` links to `x`, which")
        );
        assert_eq!(
            refused("name = \"n2\"", "name = \"n9\""),
            "rack.toml:17: no switch has a host `n9`; add it to the hosts of one, or correct the name"
        );
        assert_eq!(
            refused("name = \"n2\"", "name = \"n3\""),
            "rack.toml:21: host `n3` has a `[[host]]` already; say all about it in one"
        );
        assert!(
            refused("name = \"n2\"", "name = \"n[\"")
                .starts_with("rack.toml:17: the name of a `[[host]]`: node set")
        );
        assert_eq!(
            refused("injection_ns = 40000", "injection_ns = 0"),
            "rack.toml:18: expected injection_ns above 0, found 0; leave it out if it is not known"
        );
    }

    const FAR: &str = "schema = 1
[[switch]]
name = \"a\"
hosts = \"n[0-3]\"
links = [{ to = \"b\", latency_ns = 500000 }]

[[switch]]
name = \"b\"
hosts = \"m[0-1]\"

[[host]]
name = \"n[1,3]\"
latency_ns = 20000

[[pair]]
hosts = [\"m0\", \"n[0-1]\"]
talk = false

[[pair]]
hosts = [\"n2\", \"n3\"]
latency_ns = 7
";

    #[test]
    fn latencies_and_pairs_are_read_as_they_are_written() {
        let topology = Topology::parse(FAR, "rack.toml").expect("a valid file");
        let host = |name: &str| topology.host_named(name).expect(name);
        let pair = |one: &str, other: &str| topology.pair_latency_ns(host(one), host(other));
        assert_eq!(
            (
                topology.cable_latency_ns(1, 0),
                topology.host_latency_ns(host("n3"))
            ),
            (500_000, 20_000)
        );
        assert_eq!(
            [pair("n1", "m0"), pair("n3", "n2"), pair("n1", "n2")],
            [NEVER, 7, 0]
        );
        assert!(!topology.is_complete() && topology.has_latencies());
        let written = topology.to_toml().replace("schema = 1\n\n", "schema = 1\n");
        assert_eq!(written, FAR);
        // All hosts of switches, named in any order.
        let of_switches = FAR.replace("hosts = [\"m0\", \"n[0-1]\"]", "switches = [\"b\", \"a\"]");
        let topology = Topology::parse(&of_switches, "rack.toml").expect("a valid file");
        assert!(
            !topology.can_talk(host("n2"), host("m1")) && topology.can_talk(host("m0"), host("m1"))
        );
        assert_eq!(Topology::parse(&topology.to_toml(), "again"), Ok(topology));
        let even = Topology::parse(RATES, "rack.toml").expect("a valid file");
        assert!(even.is_complete() && !even.has_latencies());
    }

    #[test]
    fn weights_that_contradict_each_other_are_refused_with_their_line() {
        let refused = |from: &str, to: &str| {
            assert!(FAR.contains(from), "{from}");
            refusal(&FAR.replacen(from, to, 1))
        };
        let last = "hosts = [\"n2\", \"n3\"]\nlatency_ns = 7\n";
        let and = |more: &str| refused(last, &format!("{last}[[pair]]\n{more}\n"));
        assert_eq!(
            and("hosts = ['n3', 'n[0-2]']\nlatency_ns = 9"),
            "rack.toml:22: the pair of `n3` and `n2` is described twice, with latency_ns = 7 and with latency_ns = 9; \
             describe it once"
        );
        assert_eq!(
            and("switches = ['a', 'b']\nlatency_ns = 9"),
            "rack.toml:15: the pair of `m0` and `n0` is described twice, with latency_ns = 9 and with talk = false; \
             describe it once"
        );
        assert!(Topology::parse(&format!("{FAR}[[pair]]\n{last}"), "the same again").is_ok());
        let twice = refused(
            "name = \"b\"\n",
            "name = \"b\"\nlinks = [{ to = \"a\", latency_ns = 1 }]\n",
        );
        assert_eq!(
            twice,
            "rack.toml:9: the cable from switch `b` to `a` is described twice, with latency_ns 500000 and 1; give it \
             one latency"
        );
        let refused_pairs = "\
            hosts = ['n1', 'n[0-1]'];talk = false|`n1` is at both ends of a `[[pair]]`
            switches = ['a', 'a'];talk = false|`a` is at both ends of a `[[pair]]`
            hosts = ['n1', 'x'];talk = false|no switch has a host `x`
            switches = ['a', 'n1'];talk = false|a `[[pair]]` names the switch `n1`, which does not exist
            hosts = ['n1', 'n['];talk = false|the names of a `[[pair]]`: node set
            hosts = ['n1'];talk = false|expected a pair as
            hosts = ['n1', 'n2', 'n3'];talk = false|expected a pair as
            hosts = ['n1', 'n2'];switches = ['a', 'b'];talk = false|expected a pair as
            talk = false|expected a pair as
            hosts = ['n1', 'n2']|expected a pair as
            hosts = ['n1', 'n2'];talk = false;latency_ns = 1|expected a pair as
            hosts = ['n1', 'n2'];latency_ns = 1000000001|expected latency_ns of at most 1000000000, found
            hosts = ['n1', 'n2'];latency_ns = 18446744073709551615|expected latency_ns of at most";
        for row in refused_pairs.lines() {
            let (table, message) = row.trim().split_once('|').expect("two columns");
            let text = and(&table.replace(';', "\n"));
            assert!(
                text.starts_with(&format!("rack.toml:22: {message}")),
                "{text}"
            );
        }
        for more in ["latency_ns = -1", "talks = true"] {
            let text = and(&format!("hosts = ['n1', 'n2']\n{more}"));
            assert!(text.starts_with("rack.toml:24: "), "{text}");
        }
        let refused_times = "\
            latency_ns = 500000|latency_ns = -5|rack.toml:5: expected a link as
            latency_ns = 500000|latency_ns = 1000000001|rack.toml:5: expected latency_ns of at most
            latency_ns = 20000|latency_ns = 9223372036854775807|rack.toml:13: expected latency_ns of at most
            latency_ns = 20000|injection_ns = 1000000001|rack.toml:13: expected injection_ns of at most";
        for row in refused_times.lines() {
            let columns: Vec<&str> = row.trim().split('|').collect();
            let text = refused(columns[0], columns[1]);
            assert!(text.starts_with(columns[2]), "{text}");
        }
        let many = "schema = 1\n[[switch]]\nname = 'a'\nhosts = ['n[0-1999]', 'm[0-1999]']\n\
                    [[pair]]\nhosts = ['n[0-1999]', 'm[0-1999]']\ntalk = false\n";
        assert!(
            refusal(many).starts_with("rack.toml:5: the topology names more than 1048576 pairs")
        );
    }

    #[test]
    fn a_long_list_of_switches_is_cut_in_a_message() {
        let names: Vec<String> = (0..12).map(|id| format!("s{id}")).collect();
        let tables: Vec<(&str, &str, &str)> =
            names.iter().map(|name| (name.as_str(), "x", "")).collect();
        let text = switches(&tables[..1]).replace("'x'", "'n1'") + "\n";
        let islands: String = names[1..]
            .iter()
            .map(|name| format!("{{ name = '{name}' }},\n"))
            .collect();
        let text = text.replace("},\n]", &format!("}},\n{islands}]"));
        assert!(
            refusal(&text).contains("`s7`, `s8` and 3 more to switch `s0`"),
            "{}",
            refusal(&text)
        );
    }

    proptest! {
        #[test]
        fn written_latencies_and_pairs_read_back_equal(
            topology in arbitrary::topology(6, 12),
            times in prop::collection::vec(0u64..3, 18),
            pairs in prop::collection::vec(
                (any::<bool>(), any::<(prop::sample::Index, prop::sample::Index)>(), prop::option::of(0u64..3)), 0..20
            ),
        ) {
            let mut draft = read(&topology.to_toml()).expect("a valid file");
            let links = draft.switches.iter_mut().flat_map(|switch| &mut switch.links);
            links.zip(&times).for_each(|(link, &time)| link.latency_ns = Some(time));
            draft.hosts.iter_mut().zip(&times[6..]).for_each(|(host, &time)| host.latency_ns = time);
            for (are_switches, (one, other), latency_ns) in pairs {
                let count = if are_switches { draft.switches.len() } else { draft.hosts.len() };
                let (one, other) = (one.index(count), other.index(count));
                let of_switches = |host: usize| draft.hosts[host].switch;
                let ends = (one.min(other), one.max(other));
                let latency_ns = latency_ns.unwrap_or(NEVER);
                if one != other && are_switches && draft.pairs.hosts.is_empty() {
                    draft.pairs.switches.insert(ends, latency_ns);
                } else if one != other && !are_switches && !draft.pairs.switches.keys().any(|&(low, high)| {
                    let switches = [of_switches(one), of_switches(other)];
                    switches == [low, high] || switches == [high, low]
                }) {
                    draft.pairs.hosts.insert(ends, latency_ns);
                }
            }
            let topology = build::build(draft).expect("a valid draft");
            let again = Topology::parse(&topology.to_toml(), "round trip");
            prop_assert_eq!(again, Ok(topology));
        }

        #[test]
        fn a_written_topology_reads_back_equal(topology in arbitrary::topology(12, 60)) {
            prop_assert_eq!(Topology::parse(&topology.to_toml(), "round trip"), Ok(topology));
        }

        #[test]
        fn one_more_link_between_switches_is_always_a_loop(
            topology in arbitrary::topology(12, 20),
            ends in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            let count = topology.switches().len();
            let (low, high) = (ends.0.index(count), ends.1.index(count));
            prop_assume!(low != high && !topology.neighbours(low).contains(&high));
            let mut draft = read(&topology.to_toml()).expect("a valid file");
            draft.switches[low].links.push(DraftLink::new(topology.switches()[high].clone(), None));
            let problem = build::build(draft).expect_err("a loop").problem;
            let TopologyProblem::Loop(ring) = *problem else { panic!("{problem}") };
            prop_assert!(ring.len() >= 3);
            prop_assert!(ring.contains(&topology.switches()[low]) || ring.contains(&topology.switches()[high]));
        }
    }
}
