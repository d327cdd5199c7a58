//! The topology file as people write it, well and badly.

use super::*;
use crate::topology::{BUILTIN_NAMES, TopologyProblem, arbitrary};
use proptest::prelude::*;

fn refusal(text: &str) -> String {
    Topology::parse(text, "rack.toml").expect_err(text).to_string()
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
    assert_eq!(Topology::parse(ordered, "a"), Topology::parse(shuffled, "b"));
}

#[test]
fn the_test_beds_round_trip() {
    for name in BUILTIN_NAMES {
        let bed = Topology::builtin(name).expect(name);
        assert_eq!(Topology::parse(&bed.to_toml(), name), Ok(bed));
    }
    let row = Topology::builtin("fig9-5").expect("fig9-5").to_toml();
    assert!(row.contains("name = \"s1\"\nhosts = \"n[1,5,9,13,17,21,25,29]\"\nlinks = [\"s2\"]\n"), "{row}");
}

#[test]
fn what_the_toml_parser_refuses_is_told_with_its_line() {
    let cases = [
        ("schema = 1\n[[switch]\n", "rack.toml:2: "),
        (
            "schema = 1\n\n[[switch]]\nname = 's0'\nhots = 'n1'\n",
            "rack.toml:5: unknown field `hots`, expected one of `name`, `hosts`, `links`",
        ),
        ("schema = 1\nswitches = 3\n", "rack.toml:2: unknown field `switches`, expected `schema` or `switch`"),
        ("schema = 1\n[[switch]]\nhosts = 'n1'\n", "rack.toml:2: missing field `name`"),
        ("schema = 1\n[[switch]]\nname = 7\n", "rack.toml:3: invalid type: integer `7`, expected a string"),
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
        ("schema = 1\nswitch = 's0'\n", "rack.toml:2: invalid type: string \"s0\", expected a sequence"),
    ];
    for (text, message) in cases {
        assert!(refusal(text).starts_with(message), "{text}\n{}", refusal(text));
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

/// Switch tables in one line each: name, hosts, links; the first is line 2 of the file.
fn switches(tables: &[(&str, &str, &str)]) -> String {
    let table = |(name, hosts, links): &(&str, &str, &str)| {
        let links: Vec<String> = links.split_whitespace().map(|link| format!("'{link}'")).collect();
        format!("{{ name = '{name}', hosts = ['{hosts}'], links = [{}] }},\n", links.join(", "))
    };
    format!("schema = 1\nswitch = [{}]", tables.iter().map(table).collect::<String>())
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
        "rack.toml:3: hosts of switch `s1`: node set, character 5: expected the last number of the range, found the end"
    );
    assert_eq!(
        refusal(&switches(&[("s0", "n[1-1000000]", "s1"), ("s1", "m[1-1000000]", "")])),
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
        "rack.toml:2: switch `s0` links to `s1` twice; name each cable once (a bundle of cables counts as one)"
    );
    let loop_with_a_tail = [("s0", "n1", "s1"), ("s1", "n2", "s2"), ("s2", "n3", "s3"), ("s3", "n4", "s1")];
    assert_eq!(
        refusal(&switches(&loop_with_a_tail)),
        "rack.toml:5: the switches `s1`, `s2`, `s3` form a loop; remove one of their links"
    );
    assert_eq!(
        refusal(&switches(&[("s0", "n1", ""), ("s1", "n2", "s2"), ("s2", "n3", "")])),
        "rack.toml: no links join `s1`, `s2` to switch `s0`; add a link to each group of switches"
    );
}

#[test]
fn a_long_list_of_switches_is_cut_in_a_message() {
    let names: Vec<String> = (0..12).map(|id| format!("s{id}")).collect();
    let tables: Vec<(&str, &str, &str)> = names.iter().map(|name| (name.as_str(), "x", "")).collect();
    let text = switches(&tables[..1]).replace("'x'", "'n1'") + "\n";
    let islands: String = names[1..].iter().map(|name| format!("{{ name = '{name}' }},\n")).collect();
    let text = text.replace("},\n]", &format!("}},\n{islands}]"));
    assert!(refusal(&text).contains("`s7`, `s8` and 3 more to switch `s0`"), "{}", refusal(&text));
}

proptest! {
    #[test]
    fn what_is_written_reads_back_equal(topology in arbitrary::topology(12, 60)) {
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
        draft.switches[low].links.push(DraftLink { to: topology.switches()[high].clone(), line: None });
        let problem = build::build(draft).expect_err("a loop").problem;
        let TopologyProblem::Loop(ring) = *problem else { panic!("{problem}") };
        prop_assert!(ring.len() >= 3);
        prop_assert!(ring.contains(&topology.switches()[low]) || ring.contains(&topology.switches()[high]));
    }
}
