//! Tests of reading a network topology from Slurm's configuration files, valid and invalid.

use super::*;
use crate::topology::{Imported, Topology, arbitrary};
use proptest::prelude::*;

fn conf(text: &str) -> Imported {
    parse(text, "topology.conf").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn refusal(text: &str) -> String {
    parse(text, "topology.conf").expect_err(text).to_string()
}

fn addrs(text: &str) -> Imported {
    from_topology_addrs(text, "addrs").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn addrs_refusal(text: &str) -> String {
    from_topology_addrs(text, "addrs")
        .expect_err(text)
        .to_string()
}

const THREE_LEVELS: &str = r#"
# The cluster's two rooms. \# is no comment, Slurm says
SwitchName=s0 Nodes=tux[0-3,12,18-20]   # the first rack
switchname=s1 NODES="rack[1-2]n[01-02]"
SWITCHNAME = s2 nodes = login
SwitchName=s4 Switches=s[0-1]  LinkSpeed=100
SwitchName=s5 \
    Switches=s4,\
    s2
"#;

#[test]
fn a_file_with_everything_slurm_allows() {
    let Imported { topology, notes } = conf(THREE_LEVELS);
    assert_eq!(topology.switches(), ["s0", "s1", "s2", "s4", "s5"]);
    assert_eq!(topology.cables(), [(0, 3), (1, 3), (2, 4), (3, 4)]);
    let names = |switch: usize| {
        topology
            .hosts_on(switch)
            .map(|host| topology.hosts()[host].as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(0),
        [
            "tux0", "tux1", "tux2", "tux3", "tux12", "tux18", "tux19", "tux20"
        ]
    );
    assert_eq!(names(1), ["rack1n01", "rack1n02", "rack2n01", "rack2n02"]);
    assert_eq!(names(2), ["login"]);
    assert_eq!(
        notes,
        [
            "topology.conf:6: LinkSpeed is read as Mbit/s, of the cables to the hosts and switches of its line"
        ]
    );
    assert_eq!(
        [(0, 3), (1, 3), (2, 4)].map(|(low, high)| topology.cable_rate(low, high)),
        [Some(100_000_000), Some(100_000_000), None]
    );
}

const SEVERAL_TOPS: &str = "
SwitchName=s0 Nodes=tux[0-3]   LinkSpeed=900
SwitchName=s1 Nodes=tux[4-7]   LinkSpeed=900
SwitchName=s2 Nodes=tux[8-11]  LinkSpeed=900
SwitchName=s3 Nodes=tux[12-15] LinkSpeed=1800
SwitchName=s4 Switches=s[0-3]  LinkSpeed=1800
SwitchName=s5 Switches=s[0-3]  LinkSpeed=1800
";

#[test]
fn several_top_switches_are_reduced_to_the_spanning_tree_with_a_note() {
    let Imported { topology, notes } = conf(SEVERAL_TOPS);
    // By name s0 is the root; the others reach it through s4.
    assert_eq!(topology.cables(), [(0, 4), (0, 5), (1, 4), (2, 4), (3, 4)]);
    assert_eq!(topology.blocked(), [(1, 5), (2, 5), (3, 5)]);
    assert_eq!(topology.cable_rate(1, 4), Some(1_800_000_000));
    assert_eq!(
        [0, 15].map(|host| topology.host_rate(host)),
        [Some(900_000_000), Some(1_800_000_000)]
    );
    assert_eq!(
        notes[1],
        "topology.conf: the switches form loops: of 8 cables between them those of the spanning tree carry frames, and \
         blocked are `s1-s5`, `s2-s5`, `s3-s5`; should your switches have chosen others, correct the file that \
         `ethbcast \
         topo import --out` writes"
    );
    assert_eq!(
        Topology::parse(&topology.to_toml(), "written"),
        Ok(topology)
    );
    // Faster cables are preferred: s1 and s2 reach s0 through s5.
    let faster = SEVERAL_TOPS.replace(
        "SwitchName=s5 Switches=s[0-3]  LinkSpeed=1800",
        "SwitchName=s5 Switches=s[0-2] LinkSpeed=10gbit",
    );
    assert_eq!(conf(&faster).topology.blocked(), [(1, 4), (2, 4)]);
}

#[test]
fn a_network_whose_tree_leaves_hosts_out_is_refused_where_they_stand() {
    let apart = format!("{SEVERAL_TOPS}SwitchName=s6\nSwitchName=s7 Nodes=login\n");
    assert_eq!(
        refusal(&apart),
        "topology.conf:9: no links join `s6`, `s7` to switch `s0`; add a link to each group of switches"
    );
}

#[test]
fn speeds_that_cannot_be_meant_are_ignored_or_refused() {
    let Imported { topology, notes } = conf("SwitchName=s0 Nodes=n1 LinkSpeed=1\n");
    assert_eq!((topology.host_rate(0), notes.len()), (None, 1));
    assert_eq!(
        notes[0],
        "topology.conf:1: a LinkSpeed below 10 is ignored: it cannot be meant in Mbit/s"
    );
    assert_eq!(
        conf("SwitchName=s0 Nodes=n1 LinkSpeed=2.5gbit")
            .topology
            .host_rate(0),
        Some(2_500_000_000)
    );
    assert_eq!(
        refusal("SwitchName=s0 Nodes=n1 LinkSpeed=QDR"),
        "topology.conf:1: `LinkSpeed=QDR` is no rate; write a number of Mbit/s, such as LinkSpeed=10000, or a rate \
         such \
         as 10gbit"
    );
}

#[test]
fn brackets_nest_and_padding_is_kept() {
    let Imported { topology, notes } = conf("SwitchName=edge Nodes=n[1[0-2],7],gpu[008-011]\n");
    assert_eq!(
        topology.hosts(),
        [
            "gpu008", "gpu009", "gpu010", "gpu011", "n7", "n10", "n11", "n12"
        ]
    );
    assert!(notes.is_empty());
}

#[test]
fn an_empty_leaf_is_a_switch_like_any_other() {
    let topology =
        conf("SwitchName=top Switches=a,b\nSwitchName=a Nodes=n1\nSwitchName=b\n").topology;
    assert_eq!(
        (topology.switches().len(), topology.hosts_on(2).count()),
        (3, 0)
    );
}

#[test]
fn formats_are_recognised_by_content() {
    assert!(looks_like_topology_conf(THREE_LEVELS));
    assert!(looks_like_topology_conf("# x\n  SWITCHNAME = s0 Nodes=n1"));
    assert!(looks_like_topology_conf("BlockName=b1 Nodes=n[0-7]"));
    assert!(!looks_like_topology_conf(
        "schema = 1\n[[switch]]\nname = 's0'\n# SwitchName=s0\n"
    ));
}

#[test]
fn invalid_lines_are_reported_by_number() {
    let cases = [
        (
            "SwitchName=s0 Nodes",
            "topology.conf:1: expected `KEY=VALUE` such as `Nodes=n[0-7]`, found `Nodes`",
        ),
        (
            "\n\nSwitchName=s0 Nodes=n[0-3, 5]",
            "topology.conf:3: expected `KEY=VALUE` such as `Nodes=n[0-7]`, found `5]`",
        ),
        (
            "SwitchName=s0 =n1",
            "topology.conf:1: expected `KEY=VALUE` such as `Nodes=n[0-7]`, found `=n1`",
        ),
        (
            "SwitchName=s0 Nodes= ",
            "topology.conf:1: `Nodes=` has no value; give one, such as `Nodes=n[0-7]`",
        ),
        (
            "SwitchName=\"\" Nodes=n1",
            "topology.conf:1: `SwitchName=` has no value; give one, such as `SwitchName=n[0-7]`",
        ),
        (
            "SwitchName=s0 Nodes=\"n1",
            "topology.conf:1: the value of `Nodes=` opens a quotation mark and does not close it; close it on the same \
             line",
        ),
        (
            "SwitchName=s0 \\\n # gone\nSwitchName=s1 \\\n  Node=n1",
            "topology.conf:4: unknown key `Node`, expected one of `SwitchName`, `Switches`, `Nodes`, `LinkSpeed`",
        ),
        (
            "Nodes=n1 SwitchName=s0",
            "topology.conf:1: expected `SwitchName=` at the beginning of the line, found `Nodes=`",
        ),
        (
            "SwitchName=s0 Nodes=n1 nodes=n2",
            "topology.conf:1: `nodes=` stands twice in this line; join its values with a comma",
        ),
        (
            "blockname=b1 Nodes=n[1-4]",
            "topology.conf:1: `blockname=` is for Slurm's block plugin; expected the tree plugin's `SwitchName=` lines",
        ),
        (
            "Include other.conf",
            "topology.conf:1: `Include` is not followed; put the `SwitchName=` lines of all files into one",
        ),
        (
            "# nothing\n",
            "topology.conf: expected lines such as `SwitchName=s0 Nodes=n[0-7]`, found none",
        ),
        (
            "SwitchName=s0",
            "topology.conf: no switch has hosts; give at least one a `Nodes=n[0-7]`",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(refusal(text), message, "{text}");
    }
}

#[test]
fn node_sets_and_trees_are_judged_as_everywhere() {
    let cases = [
        (
            "SwitchName=s0 Nodes=n[0-",
            "topology.conf:1: hosts of switch `s0`: node set, character 5: expected the last number of the range, \
             found the end",
        ),
        (
            "SwitchName=s0 Nodes=n[0-1048576]",
            "topology.conf:1: hosts of switch `s0`: node set, character 1: the set names more than 1048576 hosts; \
             check the ranges",
        ),
        (
            "SwitchName=s0 Nodes=n[1-1000000]\nSwitchName=s1 Nodes=m[1-1000000]",
            "topology.conf:2: the topology names more than 1048576 hosts; check the ranges",
        ),
        (
            "SwitchName=s0 Nodes=n1\nSwitchName=s1 Switches=s[0-]",
            "topology.conf:2: child switches of `s1`: node set, character 5: expected the last number of the range, \
             found `]`",
        ),
        (
            "SwitchName=s0 Nodes=n1\nSwitchName=s1 \\\n Switches=s0,s7",
            "topology.conf:3: switch `s1` links to `s7`, which is not a switch; expected one of `s0`, `s1`",
        ),
        (
            "SwitchName=s0 Nodes=n[1-3]\nSwitchName=s1 Nodes=n[3-4]",
            "topology.conf:2: host `n3` is on switch `s0` already; name every host once",
        ),
        (
            "SwitchName=s0 Nodes=n1\nSwitchName=s0 Nodes=n2",
            "topology.conf:2: switch `s0` exists already; name every switch once",
        ),
        (
            "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2",
            "topology.conf:2: no links join `b` to switch `a`; add a link to each group of switches",
        ),
        (
            "SwitchName=s[0-1] Nodes=n1",
            "topology.conf:1: the name `s[0-1]` may not contain `[`; use letters, digits and `-_.:`",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(refusal(text), message, "{text}");
    }
}

fn as_conf(topology: &Topology) -> String {
    let mut text = String::new();
    for (id, name) in topology.switches().iter().enumerate() {
        let hosts: Vec<&str> = topology
            .hosts_on(id)
            .map(|host| topology.hosts()[host].as_str())
            .collect();
        let below: Vec<&str> = topology
            .cables()
            .iter()
            .filter(|cable| cable.0 == id)
            .map(|cable| topology.switches()[cable.1].as_str())
            .collect();
        text += &format!("SwitchName={name}");
        text += &if hosts.is_empty() {
            String::new()
        } else {
            format!(" Nodes={}", hosts.join(","))
        };
        text += &if below.is_empty() {
            String::new()
        } else {
            format!(" Switches={}", below.join(","))
        };
        text += "\n";
    }
    text
}

proptest! {
    #[test]
    fn any_tree_can_be_written_in_slurms_format(topology in arbitrary::topology(12, 40)) {
        prop_assert_eq!(conf(&as_conf(&topology)).topology, topology);
    }

    #[test]
    fn any_text_is_read_or_refused_without_a_panic(text in "[SwitchName= \\\\\n#\"\\[\\]0-9,-]{0,60}") {
        let _ = parse(&text, "any");
        let _ = parse(&format!("SwitchName=s0 {text}"), "any");
        let _ = from_topology_addrs(&text, "any");
    }
}

#[test]
fn the_addresses_of_a_job_make_the_tree_in_any_order() {
    let text = "s0.s5.n10 switch.switch.node\n# from rack 4\ns0.s4.n2 switch.switch.node\n\ns0.s4.n2 \
                switch.switch.node\ns0.s5.n9\n";
    let Imported { topology, notes } = addrs(text);
    assert_eq!(topology.switches(), ["s0", "s4", "s5"]);
    assert_eq!(topology.hosts(), ["n2", "n9", "n10"]);
    assert_eq!(topology.cables(), [(0, 1), (0, 2)]);
    let reversed: Vec<&str> = text.lines().rev().collect();
    assert_eq!(addrs(&reversed.join("\n")), Imported { topology, notes });
}

#[test]
fn the_pattern_says_where_a_dotted_host_begins_and_empty_levels_are_no_switches() {
    let address = |text, pattern| Address::parse(text, pattern).expect(text);
    assert_eq!(
        address("top.leaf.n1.cluster", Some("switch.switch.node")).host,
        "n1.cluster"
    );
    assert_eq!(
        address("top..n1", None),
        Address {
            switches: vec!["top"],
            host: "n1"
        }
    );
    assert_eq!(
        address("n1", Some("node")),
        Address {
            switches: vec![],
            host: "n1"
        }
    );
}

#[test]
fn without_a_topology_in_slurm_all_hosts_are_on_one_switch_with_a_note() {
    let Imported { topology, notes } = addrs("n1 node\nn2 node\n");
    assert_eq!((topology.switches().len(), topology.hosts().len()), (1, 2));
    assert_eq!(
        notes,
        ["addrs: the addresses name no switch; all hosts are taken to be on one, s0"]
    );
}

#[test]
fn invalid_addresses_are_reported_by_line() {
    let cases = [
        (
            "",
            "addrs: expected lines such as `s0.s4.n3 switch.switch.node`, found none",
        ),
        (
            "s0.n1 switch.node 3",
            "addrs:1: expected an address and at most a pattern, found a third word `3`",
        ),
        (
            "\ns0.n1 block.node",
            "addrs:2: expected a pattern of `switch` and a last `node`, such as switch.switch.node, found `block.node`",
        ),
        (
            "s0.n1 switch.switch.node",
            "addrs:1: the address `s0.n1` has fewer parts than its pattern `switch.switch.node`; copy both from one \
             host",
        ),
        (
            "s0.s1.",
            "addrs:1: the address `s0.s1.` names no host; expected one such as s0.s4.n3",
        ),
        (
            "s[0-1].s4.n3 switch.switch.node",
            "addrs:1: the address goes through several switches at once, `s[0-1]`; only a tree of switches can be read",
        ),
        (
            "s0.n1\nn2\n",
            "addrs:2: the address `n2` names no switch, though others do; collect the addresses from one job",
        ),
        (
            "s0.s1.n1\ns0.s2.n1\n",
            "addrs:2: host `n1` is on switch `s1` already; name every host once",
        ),
        (
            "a.n1\nb.n2\n",
            "addrs:2: no links join `b` to switch `a`; add a link to each group of switches",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(addrs_refusal(text), message, "{text}");
    }
}
