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
        let blocked =
            |link: &Spanned<String>| DraftLink::new(link.get_ref().clone(), line_of(link));
        let line = line_of(&table.name);
        let switch = draft.add_switch(table.name.into_inner(), line);
        (switch.links, switch.blocked) = (links, table.blocked.iter().map(blocked).collect());
    }
    draft.sort_hosts();
    describe_hosts(&mut draft, &file.host, &lines)?;
    Ok(draft)
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
        for name in names {
            let place = draft
                .hosts
                .binary_search_by(|host| natural_order(&host.name, &name));
            let Ok(place) = place else {
                return Err(refuse(TopologyProblem::NotOnSwitch(name)));
            };
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
    if let Some(key) = table
        .keys()
        .find(|key| !["to", "rate", "cables"].contains(&key.as_str()))
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
    Ok(DraftLink {
        to: to.to_owned(),
        line: Some(line),
        rate,
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
            alike
                .entry((self.host_rate(host), self.injection_ns(host)))
                .or_default()
                .push(name);
        }
        alike.remove(&(None, None));
        let table =
            |((rate, injection_ns), names): (&(Option<u64>, Option<u64>), &Vec<&String>)| {
                let rate = rate
                    .map(|rate| format!("rate = \"{}\"\n", format_rate(rate)))
                    .unwrap_or_default();
                let injection = injection_ns
                    .map(|time| format!("injection_ns = {time}\n"))
                    .unwrap_or_default();
                format!(
                    "\n[[host]]\nname = \"{}\"\n{rate}{injection}",
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
        let form = "rack.toml:5: expected a link as \"s1\" or as { to = \"s1\", rate = \"10gbit\", cables = 2 }: ";
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
