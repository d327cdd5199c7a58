//! Tests of reading a network topology from `lldpcli` outputs, valid and invalid.

use super::*;
use crate::topology::Topology;

type Neighbour<'a> = (&'a str, &'a str, &'a [&'a str]);

const BRIDGE: &[&str] = &["Bridge"];
const CONTAINERS: &[&str] = &["Bridge", "Router"];
const STATION: &[&str] = &[];

fn output(neighbours: &[Neighbour]) -> String {
    let interface = |(interface, name, abilities): &Neighbour| {
        let enabled = |kind: &&str| abilities.contains(kind);
        let kinds = ["Bridge", "Router", "Wlan", "Station"];
        let capability: Vec<String> = kinds
            .iter()
            .map(|kind| format!(r#"{{"type": "{kind}", "enabled": {}}}"#, enabled(kind)))
            .collect();
        format!(
            r#"{{"name": "{interface}", "via": "LLDP", "rid": "1", "age": "0 day, 00:00:07",
                "chassis": [{{"id": [{{"type": "mac", "value": "02:00:00:00:00:01"}}], "name": [{{"value": "{name}"}}],
                "descr": [{{"value": "a machine"}}], "capability": [{}]}}],
                "port": [{{"id": [{{"type": "ifname", "value": "swp1"}}], "ttl": [{{"value": "120"}}]}}]}}"#,
            capability.join(", ")
        )
    };
    format!(
        r#"{{"lldp": [{{"interface": [{}]}}]}}"#,
        neighbours
            .iter()
            .map(interface)
            .collect::<Vec<_>>()
            .join(",\n")
    )
}

fn file(name: &str, neighbours: &[Neighbour]) -> LldpFile {
    LldpFile {
        name: name.to_string(),
        source_name: format!("d/{name}.json"),
        text: output(neighbours),
    }
}

fn on(host: &str, switch: &str) -> LldpFile {
    file(host, &[("eth0", switch, BRIDGE)])
}

fn refusal(files: &[LldpFile], interface: Option<&str>) -> String {
    read(files, interface, "d")
        .expect_err("refused")
        .to_string()
}

fn shape(topology: &Topology) -> String {
    topology
        .to_toml()
        .replace("schema = 1\n", "")
        .replace("\n[[switch]]\n", "")
        .replace("name = ", "\n")
        .replace('\n', " ")
}

#[test]
fn hosts_on_one_switch() {
    let Imported { topology, notes } =
        read(&[on("n10", "sw1"), on("n2", "sw1")], None, "d").expect("a topology");
    assert_eq!(topology.switches(), ["sw1"]);
    assert_eq!(topology.hosts(), ["n2", "n10"]);
    assert!(notes.is_empty());
}

#[test]
fn edge_switches_are_joined_by_an_assumed_core_and_a_note_says_so() {
    let files = [
        on("n0", "sw1"),
        on("n1", "sw1"),
        on("n2", "sw2"),
        on("n3", "sw10"),
    ];
    let Imported { topology, notes } = read(&files, None, "d").expect("a topology");
    assert_eq!(
        shape(&topology),
        r#" "core" links = ["sw1", "sw2", "sw10"]  "sw1" hosts = "n[0-1]"  "sw2" hosts = "n2"  "sw10" hosts = "n3" "#
    );
    assert_eq!(
        notes,
        ["d: nothing says what joins the 3 switches; a switch core between them is assumed"]
    );
    let taken = read(&[on("n0", "core"), on("n1", "sw1")], None, "d")
        .expect("a topology")
        .topology;
    assert_eq!(taken.switches(), ["core", "core1", "sw1"]);
}

#[test]
fn outputs_of_switches_say_what_joins_them() {
    // leaf1 and leaf2 hang on spine by a bundle of two cables each; spine also sees the uplink and
    // a telephone.
    let leaf = |name, host| {
        file(
            name,
            &[
                ("swp1", host, STATION),
                ("swp49", "spine", BRIDGE),
                ("swp50", "spine", BRIDGE),
            ],
        )
    };
    let spine = [
        ("swp1", "leaf1", BRIDGE),
        ("swp2", "leaf2", BRIDGE),
        ("swp30", "uplink", CONTAINERS),
        ("swp31", "phone", BRIDGE),
    ];
    let files = [
        on("n0", "leaf1"),
        on("n1", "leaf2"),
        leaf("leaf1", "n0"),
        leaf("leaf2", "n1"),
        file("spine", &spine),
    ];
    let Imported { topology, notes } = read(&files, None, "d").expect("a topology");
    assert_eq!(
        shape(&topology),
        r#" "leaf1" hosts = "n0" links = ["spine"]  "leaf2" hosts = "n1" links = ["spine"]  "spine" "#
    );
    assert_eq!(
        notes,
        ["d: left out phone, uplink: no host is behind any of them"]
    );
    let from_leaves_only = read(&files[..4], None, "d").expect("a topology");
    assert_eq!(
        (from_leaves_only.topology, from_leaves_only.notes.len()),
        (topology, 0)
    );
}

#[test]
fn a_host_that_runs_containers_is_still_a_host() {
    // Its bridges make lldpd announce it as a bridge and a router to its switch.
    let switch = file(
        "sw1",
        &[
            ("swp1", "n0", CONTAINERS),
            ("swp2", "n1", CONTAINERS),
            ("swp3", "n2", STATION),
        ],
    );
    let files = [on("n0", "sw1"), on("n1", "sw1"), on("n2", "sw1"), switch];
    let Imported { topology, .. } = read(&files, None, "d").expect("a topology");
    assert_eq!(shape(&topology), r#" "sw1" hosts = "n[0-2]" "#);
}

#[test]
fn neighbours_that_are_hosts_are_ignored() {
    // Through an unmanaged switch in between, hosts see each other.
    let heard = |other| {
        file(
            if other == "n1" { "n0" } else { "n1" },
            &[("eth0", other, STATION), ("eth0", "sw1", BRIDGE)],
        )
    };
    assert_eq!(
        shape(
            &read(&[heard("n0"), heard("n1")], None, "d")
                .expect("a topology")
                .topology
        ),
        r#" "sw1" hosts = "n[0-1]" "#
    );
}

#[test]
fn a_chassis_is_known_by_its_short_name_if_a_file_is_called_so_and_by_its_id_if_its_name_is_unusable()
 {
    let switch = file(
        "sw1",
        &[("swp1", "n0.lan", STATION), ("swp2", "sw2.lan", BRIDGE)],
    );
    let files = [on("n0", "sw1.lan"), on("n1", "sw2.lan"), switch];
    assert_eq!(
        shape(&read(&files, None, "d").expect("a topology").topology),
        r#" "sw1" hosts = "n0" links = ["sw2.lan"]  "sw2.lan" hosts = "n1" "#
    );
    let unusable = read(&[on("n0", "Rack 7 (top)")], None, "d")
        .expect("a topology")
        .topology;
    assert_eq!(unusable.switches(), ["02:00:00:00:00:01"]);
}

#[test]
fn a_second_network_is_ignored_if_the_interface_is_named() {
    let files = [file(
        "n0",
        &[("eth0", "sw1", BRIDGE), ("ipmi0", "mgmt", BRIDGE)],
    )];
    assert_eq!(
        read(&files, Some("eth0"), "d")
            .expect("a topology")
            .topology
            .switches(),
        ["sw1"]
    );
    assert_eq!(
        refusal(&files, None),
        "d/n0.json: the host has the switch `sw1` on eth0 and `mgmt` on ipmi0, but a host is on one switch: choose the \
         interface with --interface"
    );
    assert_eq!(
        refusal(&files, Some("eth9")),
        "d: n0 hears no switch on eth9; have lldpd run on the host and LLDP sent by the switch for a minute, then \
         collect again"
    );
}

#[test]
fn files_are_named_after_hosts() {
    for (file, host) in [
        ("n0.json", "n0"),
        ("n0", "n0"),
        ("n1.cluster.lan", "n1.cluster.lan"),
        ("n1.lan.json0", "n1.lan"),
    ] {
        assert_eq!(LldpFile::name_of(file), host);
    }
}

#[test]
fn a_file_that_is_no_lldp_output_is_refused_with_file_and_line() {
    let with = |text: &str| {
        [LldpFile {
            name: "n0".to_string(),
            source_name: "d/n0.json".to_string(),
            text: text.to_string(),
        }]
    };
    let expected = "expected the output of `lldpcli -f json0 show neighbors`: ";
    let cases = [
        ("", "d/n0.json:1: ", "EOF while parsing a value"),
        (
            "{\n\"lldp\": [\n",
            "d/n0.json:3: ",
            "EOF while parsing a list",
        ),
        ("Interface: eth0", "d/n0.json:1: ", "expected value"),
        ("{}", "d/n0.json:1: ", "missing field `lldp`"),
        (
            "{\n\"lldp\": {\"interface\": {}}}",
            "d/n0.json:2: ",
            "invalid type: map, expected a sequence",
        ),
    ];
    for (text, place, message) in cases {
        let refused = refusal(&with(text), None);
        assert_eq!(refused, format!("{place}{expected}{message}"), "{text}");
    }
    assert!(refusal(&with("{\"lldp\": [{}]}"), None).starts_with("d: n0 hears no switch; "));
    assert_eq!(
        refusal(&[], None),
        "d: expected one output of `lldpcli -f json0 show neighbors` per host, found none"
    );
    let twice = [on("n0", "sw1"), on("n0", "sw2")];
    assert_eq!(
        refusal(&twice, None),
        "d/n0.json: `n0` has an output already; keep one file for each host"
    );
}

#[test]
fn rings_are_reduced_to_the_spanning_tree_from_the_least_address() {
    let ring = |name, left, right| file(name, &[("swp1", left, BRIDGE), ("swp2", right, BRIDGE)]);
    let files = [
        on("n0", "a"),
        on("n1", "b"),
        on("n2", "c"),
        ring("a", "c", "b"),
        ring("b", "a", "c"),
        ring("c", "b", "a"),
    ];
    let Imported { topology, notes } = read(&files, None, "d").expect("a topology");
    assert_eq!(
        (topology.cables(), topology.blocked()),
        (&[(0, 1), (0, 2)][..], &[(1, 2)][..])
    );
    assert!(notes[0].contains("blocked are `b-c`"), "{notes:?}");
    // Addresses decide, where they differ: c has the least.
    let addressed = files.map(|mut file| {
        for (name, last) in [("a", "0a"), ("b", "0b"), ("c", "01")] {
            let chassis = |address| {
                format!(
                    r#""value": "02:00:00:00:00:{address}"}}], "name": [{{"value": "{name}"}}]"#
                )
            };
            file.text = file.text.replace(&chassis("01"), &chassis(last));
        }
        file
    });
    assert_eq!(
        read(&addressed, None, "d")
            .expect("a topology")
            .topology
            .blocked(),
        [(0, 1)]
    );
}

fn with_ports(mut file: LldpFile, ports: &[(&str, &str)]) -> LldpFile {
    const PORT: &str = r#""port": [{"id""#;
    for (kind, aggregation) in ports {
        let current = format!(
            r#""auto-negotiation": [{{"supported": true, "current": [{{"value": "{kind}"}}]}}]"#
        );
        let port =
            format!(r#""port": [{{"aggregation": [{{"value": "{aggregation}"}}], {current}, "id""#);
        file.text = file.text.replacen(PORT, &port, 1);
    }
    file
}

#[test]
fn ports_say_what_cables_carry_and_an_aggregation_is_one_cable_of_the_summed_rate() {
    let (gigabit, ten) = (
        "1000BaseTFD - Four-pair Category 5 UTP, full duplex mode",
        "10GigBaseSR - R fiber",
    );
    let host = |name, switch, kind| with_ports(on(name, switch), &[(kind, "0")]);
    let pair = |name, other, ports: &[(&str, &str)]| {
        with_ports(
            file(name, &[("swp1", other, BRIDGE), ("swp2", other, BRIDGE)]),
            ports,
        )
    };
    let read_pair = |ports: &[(&str, &str)], back: &[(&str, &str)]| {
        let files = [
            host("n0", "a", gigabit),
            host("n1", "b", ten),
            pair("a", "b", ports),
            pair("b", "a", back),
        ];
        read(&files, None, "d").map(|imported| imported.topology)
    };
    let bundle =
        read_pair(&[(ten, "5"), (ten, "5")], &[(ten, "7"), (ten, "7")]).expect("a topology");
    assert_eq!(
        [0, 1].map(|host| bundle.host_rate(host)),
        [Some(1_000_000_000), Some(10_000_000_000)]
    );
    assert_eq!(bundle.cable_rate(0, 1), Some(20_000_000_000));
    // One end's report is enough. Of two cables that are not aggregated one carries and one is
    // blocked.
    let one_end = read_pair(&[(ten, "5"), (ten, "5")], &[]).expect("a topology");
    assert_eq!(one_end.cable_rate(0, 1), Some(20_000_000_000));
    let apart = read_pair(&[(gigabit, "0"), (ten, "0")], &[]).expect("a topology");
    assert_eq!(apart.cable_rate(0, 1), Some(10_000_000_000));
    let refused = read_pair(&[(ten, "0")], &[(gigabit, "0")])
        .expect_err("two rates")
        .to_string();
    assert!(
        refused
            .starts_with("d/b.json: `b` reports that the cable to `a` carries 1gbit, and `a` that it carries 10gbit"),
        "{refused}"
    );
}

#[test]
fn full_and_short_names_of_a_host_are_one() {
    let files = [
        on("n0.lan", "sw1"),
        on("n1", "sw1"),
        file(
            "sw1",
            &[("swp1", "n0", STATION), ("swp2", "n1.lan", STATION)],
        ),
    ];
    let Imported { topology, .. } = read(&files, None, "d").expect("a topology");
    assert_eq!(
        (
            topology.hosts().len(),
            topology.host_named("n0"),
            topology.host_named("n1.lan")
        ),
        (2, Some(0), Some(1))
    );
}

#[test]
fn unconnected_switches_are_refused_with_the_remedy() {
    let hosts = [on("n0", "a"), on("n1", "b"), on("n2", "c")];
    let partly = [file("a", &[("swp1", "b", BRIDGE), ("swp2", "n0", STATION)])];
    assert_eq!(
        refusal(&[hosts.as_slice(), &partly].concat(), None),
        "d: no cable is known that joins `c` to the switch `a`; add the outputs of these switches, or leave out those \
         of all"
    );
}
