//! Check by `ethbcast doctor` for nftables rules that drop this program's frames.

use super::outside::{json_of, text_of};
use super::{Fault, Findings, Fix};
use crate::args::DoctorArgs;
use ethbcast_transport::packet::Interface;
use ethbcast_transport::wire::group_mac;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;

/// Checks for rules that drop frames on this interface; `link` is iproute2's description of it.
pub fn check(interface: &Interface, args: &DoctorArgs, link: &Value, findings: &mut Findings) {
    let listed = json_of("nft", &["-j", "list", "ruleset"]);
    // Some versions omit a chain's interface from the JSON output.
    let (json, text) = match (listed, text_of("nft", &["list", "ruleset"])) {
        (Ok(json), Ok(text)) => (json, text),
        (Err(why), _) | (_, Err(why)) => {
            return findings.skip(format!("rules that drop frames: {why}"));
        }
    };
    let ether_type = args.wire.ether_type;
    let frames = FrameCondition {
        interface: &interface.name,
        is_bridge: link["linkinfo"]["info_kind"] == "bridge",
        addresses: [interface.mac, group_mac(&args.wire.group)].map(|mac| mac.to_string()),
        ether_type: ether_type.number(),
        mtu_bytes: interface.mtu_bytes as u64,
    };
    for (chain, how) in Ruleset::new(&json, &text).dropping(&frames) {
        let what = format!(
            "the chain {chain} of nftables drops {how} of EtherType {ether_type} on {}",
            interface.name
        );
        let fix = format!(
            "nft insert rule {chain} ether type 0x{:04x} accept",
            ether_type.number()
        );
        findings.add(Fault::Filter, what, Fix::Command(fix));
    }
}

/// Returns the chains of nftables that see what comes to this host by IP.
pub fn input_chains() -> Vec<String> {
    let Ok(json) = json_of("nft", &["-j", "list", "ruleset"]) else {
        return Vec::new();
    };
    let rules = Ruleset::new(&json, "");
    let is_input = |(name, chain): &&(ChainName, &Value)| {
        ["ip", "inet"].contains(&name.family.as_str())
            && chain["hook"] == "input"
            && chain["type"] == "filter"
    };
    rules
        .bases
        .iter()
        .filter(is_input)
        .map(|(name, _)| name.to_string())
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holds {
    Never,
    Sometimes,
    Always,
}

impl Holds {
    fn when(is_true: bool) -> Holds {
        if is_true { Holds::Always } else { Holds::Never }
    }

    fn sometimes_when(is_possible: bool) -> Holds {
        if is_possible {
            Holds::Sometimes
        } else {
            Holds::Never
        }
    }

    fn negated(self) -> Holds {
        match self {
            Holds::Never => Holds::Always,
            Holds::Sometimes => Holds::Sometimes,
            Holds::Always => Holds::Never,
        }
    }
}

#[derive(Clone, Debug)]
pub struct FrameCondition<'a> {
    pub interface: &'a str,
    pub is_bridge: bool,
    /// Source and destination addresses: this host's and the group's.
    pub addresses: [String; 2],
    pub ether_type: u16,
    pub mtu_bytes: u64,
}

impl FrameCondition<'_> {
    /// Evaluates a `match` of a rule; unknown conditions count as never met.
    pub fn fit(&self, condition: &Value) -> Holds {
        let (operator, left, right) = (
            condition["op"].as_str().unwrap_or("=="),
            &condition["left"],
            &condition["right"],
        );
        let any = |holds: &dyn Fn(&Value) -> Holds| match right["set"].as_array() {
            Some(set) => set.iter().map(holds).max().unwrap_or(Holds::Never),
            None => holds(right),
        };
        if is_of_an_address(&left["&"][0]) {
            return Holds::Sometimes;
        }
        let key = left["meta"]["key"].as_str().unwrap_or_default();
        let equal = match key {
            "length" => return self.length(operator, right),
            "iif" | "iifname" | "oif" | "oifname" => any(&|value| self.is_through(value)),
            // Frames go to this host or to a group, never to others.
            "pkttype" => any(&|value| Holds::sometimes_when(value != "other")),
            _ if is_ether_type(left) => any(&|value| Holds::when(self.is_of(value))),
            _ if left["payload"]["protocol"] == "ether" => any(&|value| {
                let is_ours = |own: &String| {
                    value
                        .as_str()
                        .is_some_and(|text| text.eq_ignore_ascii_case(own))
                };
                Holds::sometimes_when(self.addresses.iter().any(is_ours))
            }),
            _ if left.get("numgen").is_some() => return Holds::Sometimes,
            _ => return Holds::Never,
        };
        match operator {
            "==" | "in" => equal,
            "!=" => equal.negated(),
            _ => Holds::Never,
        }
    }

    /// Whether a number in nftables' notation is the EtherType of the frames.
    pub fn is_of(&self, value: &Value) -> bool {
        let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
        let hexadecimal = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let decimal = value.as_str().and_then(|text| text.parse().ok());
        value.as_u64().or(hexadecimal).or(decimal) == Some(self.ether_type.into())
    }

    pub fn is_on(&self, name: &str) -> bool {
        name.strip_suffix('*')
            .map_or(name == self.interface, |start| {
                self.interface.starts_with(start)
            })
    }

    fn is_through(&self, value: &Value) -> Holds {
        if self.is_bridge {
            Holds::Sometimes
        } else {
            Holds::when(value.as_str().is_some_and(|name| self.is_on(name)))
        }
    }

    fn length(&self, operator: &str, right: &Value) -> Holds {
        let Some(bytes) = right.as_u64() else {
            return Holds::Never;
        };
        Holds::sometimes_when(match operator {
            ">" => bytes < self.mtu_bytes,
            ">=" | "==" => bytes <= self.mtu_bytes,
            _ => true,
        })
    }
}

pub fn is_ether_type(left: &Value) -> bool {
    let payload = &left["payload"];
    left["meta"]["key"] == "protocol"
        || payload["protocol"] == "ether" && payload["field"] == "type"
        || payload["base"] == "ll" && payload["offset"] == 96 && payload["len"] == 16
}

fn is_of_an_address(masked: &Value) -> bool {
    let payload = &masked["payload"];
    payload["protocol"] == "ether" && payload["field"] != "type"
        || payload["base"] == "ll" && payload["offset"].as_u64().is_some_and(|bits| bits < 96)
}

const MAX_JUMPS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChainName {
    family: String,
    table: String,
    name: String,
}

impl ChainName {
    /// Reads the name of a chain, or of a rule's chain, which has another key.
    fn of(entry: &Value, key: &str) -> ChainName {
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        ChainName {
            family: text("family"),
            table: text("table"),
            name: text(key),
        }
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {}", self.family, self.table, self.name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Accepted,
    Dropped(Holds),
    GoOn,
}

#[derive(Clone, Debug)]
pub struct Ruleset<'a> {
    bases: Vec<(ChainName, &'a Value)>,
    rules: HashMap<ChainName, Vec<&'a Value>>,
    devices: HashMap<ChainName, Vec<String>>,
}

impl<'a> Ruleset<'a> {
    /// Combines the outputs of `nft -j list ruleset` and `nft list ruleset`.
    pub fn new(json: &'a Value, text: &str) -> Ruleset<'a> {
        let entries = json["nftables"].as_array().map_or(&[][..], Vec::as_slice);
        let of = |kind: &'static str| entries.iter().filter_map(move |entry| entry.get(kind));
        let bases: Vec<_> = of("chain")
            .filter(|chain| !chain["hook"].is_null())
            .map(|chain| (ChainName::of(chain, "name"), chain))
            .collect();
        let mut rules: HashMap<_, Vec<_>> = HashMap::new();
        for rule in of("rule") {
            rules
                .entry(ChainName::of(rule, "chain"))
                .or_default()
                .push(&rule["expr"]);
        }
        let mut devices = devices_in(text);
        for (name, chain) in &bases {
            let named = |device: &Value| device.as_str().map(str::to_owned);
            match &chain["dev"] {
                Value::Array(list) => {
                    drop(devices.insert(name.clone(), list.iter().filter_map(named).collect()))
                }
                Value::String(device) => drop(devices.insert(name.clone(), vec![device.clone()])),
                _ => {}
            }
        }
        Ruleset {
            bases,
            rules,
            devices,
        }
    }

    /// Returns the chains that drop such frames, and whether they drop all or some.
    pub fn dropping(&self, frames: &FrameCondition<'_>) -> Vec<(ChainName, &'static str)> {
        let seen = self
            .bases
            .iter()
            .filter(|(name, chain)| self.sees(name, chain, frames));
        seen.filter_map(|(name, chain)| {
            let fate = match self.follow(name, frames, 0) {
                Fate::GoOn if chain["policy"] == "drop" => Fate::Dropped(Holds::Always),
                fate => fate,
            };
            match fate {
                Fate::Dropped(Holds::Always) => Some((name.clone(), "the frames")),
                Fate::Dropped(_) => Some((name.clone(), "some frames")),
                _ => None,
            }
        })
        .collect()
    }

    fn sees(&self, name: &ChainName, chain: &Value, frames: &FrameCondition<'_>) -> bool {
        match name.family.as_str() {
            "netdev" => self
                .devices
                .get(name)
                .is_some_and(|all| all.iter().any(|device| frames.is_on(device))),
            "bridge" => frames.is_bridge && chain["hook"] != "forward",
            _ => false,
        }
    }

    fn follow(&self, name: &ChainName, frames: &FrameCondition<'_>, jumps: usize) -> Fate {
        let mut worst = Fate::GoOn;
        for rule in self.rules.get(name).into_iter().flatten() {
            let mut holds = Holds::Always;
            for statement in rule.as_array().into_iter().flatten() {
                holds = holds.min(reached(statement, frames));
                if holds == Holds::Never {
                    break;
                }
                let fate = match verdict(statement, frames) {
                    Some(Verdict::Accept) => Fate::Accepted,
                    Some(Verdict::Drop) => Fate::Dropped(holds),
                    Some(Verdict::Return) if holds == Holds::Always => return worst,
                    Some(Verdict::Jump(to)) if jumps < MAX_JUMPS => self.follow(
                        &ChainName {
                            name: to.to_owned(),
                            ..name.clone()
                        },
                        frames,
                        jumps + 1,
                    ),
                    _ => continue,
                };
                match fate {
                    Fate::Accepted if holds == Holds::Always => {
                        return if worst == Fate::GoOn { fate } else { worst };
                    }
                    Fate::Dropped(some) if some.min(holds) == Holds::Always => {
                        return Fate::Dropped(Holds::Always);
                    }
                    Fate::Dropped(_) => worst = Fate::Dropped(Holds::Sometimes),
                    _ => {}
                }
            }
        }
        worst
    }
}

enum Verdict<'a> {
    Accept,
    Drop,
    Return,
    Jump(&'a str),
}

/// Returns the share of frames that get past a statement of a rule.
fn reached(statement: &Value, frames: &FrameCondition<'_>) -> Holds {
    if let Some(condition) = statement.get("match") {
        return frames.fit(condition);
    }
    match ["limit", "quota", "ct count", "xt"].map(|key| statement.get(key).is_some()) {
        // Matches of xtables are not interpreted.
        [.., true] => Holds::Never,
        [false, false, false, false] => Holds::Always,
        _ => Holds::Sometimes,
    }
}

fn verdict<'a>(statement: &'a Value, frames: &FrameCondition<'_>) -> Option<Verdict<'a>> {
    let has = |key: &str| statement.get(key).is_some();
    if let Some(map) = statement.get("vmap") {
        let elements = map["data"]["set"]
            .as_array()
            .filter(|_| is_ether_type(&map["key"]))?;
        let ours = elements.iter().find(|element| frames.is_of(&element[0]))?;
        return verdict(&ours[1], frames);
    }
    let target = statement["jump"]["target"]
        .as_str()
        .or(statement["goto"]["target"].as_str());
    match target {
        Some(name) => Some(Verdict::Jump(name)),
        None if has("accept") => Some(Verdict::Accept),
        None if has("drop") || has("reject") => Some(Verdict::Drop),
        None if has("return") => Some(Verdict::Return),
        None => None,
    }
}

fn devices_in(text: &str) -> HashMap<ChainName, Vec<String>> {
    let mut devices = HashMap::new();
    let (mut table, mut chain) = (("", ""), "");
    for line in text.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["table", family, name, "{"] => table = (family, name),
            ["chain", name, "{"] => chain = name,
            ["type", ..] => {
                let (family, table) = (table.0.to_owned(), table.1.to_owned());
                let name = ChainName {
                    family,
                    table,
                    name: chain.to_owned(),
                };
                devices.insert(name, listed(line));
            }
            _ => {}
        }
    }
    devices
}

/// Returns the names in `… device "eth0" priority …` or `… devices = { eth0, "eth1" } priority …`.
fn listed(line: &str) -> Vec<String> {
    let one = line
        .split_once(" device ")
        .and_then(|(_, after)| after.split_whitespace().next());
    let many = line
        .split_once(" devices = {")
        .and_then(|(_, after)| after.split('}').next());
    let names = one.or(many).unwrap_or_default().split(',');
    names
        .map(|name| name.trim().trim_matches('"').to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FRAMES: FrameCondition<'static> = FrameCondition {
        interface: "eth0",
        is_bridge: false,
        addresses: [String::new(), String::new()],
        ether_type: 0x88b5,
        mtu_bytes: 1500,
    };

    fn matching(key: &str, operator: &str, right: Value) -> Value {
        let left = match key {
            "type" => json!({ "payload": { "protocol": "ether", "field": "type" } }),
            "raw" => json!({ "payload": { "base": "ll", "offset": 96, "len": 16 } }),
            "random" => json!({ "numgen": { "mode": "random", "mod": 1000, "offset": 0 } }),
            meta => json!({ "meta": { "key": meta } }),
        };
        json!({ "match": { "op": operator, "left": left, "right": right } })
    }

    /// Returns how frames are dropped by a base chain `c` with this policy and these rules, and a
    /// chain `sub`.
    fn dropping(policy: &str, rules: &[Value], sub: &[Value]) -> Vec<&'static str> {
        let mut entries = vec![
            json!({ "chain": { "family": "netdev", "table": "t", "name": "c", "hook": "ingress",
        "policy": policy } }),
        ];
        for (chain, rules) in [("c", rules), ("sub", sub)] {
            let rule = |expr: &Value| {
                json!(
                { "rule": { "family": "netdev", "table": "t", "chain": chain,
                    "expr": expr } })
            };
            entries.extend(rules.iter().map(rule));
        }
        let text = "table netdev t {\n\tchain c {\n\t\ttype filter hook ingress device \"eth0\" \
            priority filter;\n\t}\n}\n";
        let found = Ruleset::new(&json!({ "nftables": entries }), text).dropping(&FRAMES);
        found.into_iter().map(|(_, how)| how).collect()
    }

    #[test]
    fn a_rule_that_drops_our_frames_is_found_however_it_is_written() {
        let (none, drop) = ([""; 0], json!({ "drop": null }));
        let number = json!(0x88b5);
        for condition in [
            matching("type", "==", number.clone()),
            matching("type", "==", json!("0x88b5")),
            matching("type", "==", json!({ "set": ["ip", number] })),
            matching("type", "!=", json!({ "set": ["ip", "arp"] })),
            matching("protocol", "==", number.clone()),
            matching("raw", "==", number.clone()),
            matching("iifname", "==", json!("eth*")),
        ] {
            assert_eq!(
                dropping("accept", &[json!([condition, drop])], &[]),
                ["the frames"],
                "{condition}"
            );
        }
        for condition in [
            matching("type", "==", json!("arp")),
            matching("type", "!=", number.clone()),
            matching("iifname", "==", json!("eth1")),
            matching("length", ">", json!(1500)),
            matching("mark", "==", json!(1)),
        ] {
            assert_eq!(
                dropping("accept", &[json!([condition, drop])], &[]),
                none,
                "{condition}"
            );
        }
        for condition in [
            matching("random", "<", json!(50)),
            matching("pkttype", "==", json!("multicast")),
            matching("length", ">", json!(1400)),
            json!({ "limit": { "rate": 100, "per": "second", "inv": true } }),
        ] {
            assert_eq!(
                dropping("accept", &[json!([condition, drop])], &[]),
                ["some frames"],
                "{condition}"
            );
        }
        let map = json!({ "vmap": { "key": { "payload": { "protocol": "ether", "field": "type" } },
        "data": { "set": [["ip", { "accept": null }], [number, { "drop": null }]] } } });
        assert_eq!(dropping("accept", &[json!([map])], &[]), ["the frames"]);
    }

    #[test]
    fn a_frame_is_followed_through_jumps_and_to_the_policy() {
        let (none, drop, accept) = ([""; 0], json!({ "drop": null }), json!({ "accept": null }));
        let ours = matching("type", "==", json!(0x88b5));
        let jump = json!([{ "jump": { "target": "sub" } }]);
        assert_eq!(dropping("drop", &[], &[]), ["the frames"]);
        assert_eq!(dropping("drop", &[json!([ours, accept])], &[]), none);
        assert_eq!(
            dropping("accept", &[json!([ours, accept]), json!([drop])], &[]),
            none,
            "the first verdict counts"
        );
        assert_eq!(
            dropping(
                "accept",
                std::slice::from_ref(&jump),
                &[json!([ours, drop])]
            ),
            ["the frames"]
        );
        assert_eq!(
            dropping(
                "drop",
                std::slice::from_ref(&jump),
                &[json!([ours, accept])]
            ),
            none
        );
        assert_eq!(
            dropping("accept", &[], &[json!([ours, drop])]),
            none,
            "nobody jumps there"
        );
        let back = json!([{ "return": null }]);
        assert_eq!(dropping("accept", &[jump], &[back, json!([drop])]), none);
        // nftables refuses circular jumps; evaluation must end nevertheless.
        assert_eq!(
            dropping("accept", &[json!([{ "jump": { "target": "c" } }])], &[]),
            none
        );
    }

    #[test]
    fn a_chain_for_another_interface_is_none_of_ours() {
        let chain = |name: &str, dev: Value| {
            json!({ "chain": { "family": "netdev", "table": "t", "name": name, "hook": "egress", "policy": "drop",
            "dev": dev } })
        };
        let json = json!({ "nftables": [
        chain("a", Value::Null),
        chain("b", Value::Null),
        chain("c", json!(["eth7", "eth0"])),
        chain("d", json!("eth7")),
        { "chain": { "family": "inet", "table": "t", "name": "input", "hook": "input", "policy": "drop" } },
        { "chain": { "family": "bridge", "table": "t", "name": "input", "hook": "input", "policy": "drop" } },
    ] });
        let text = "table netdev t {\n\tchain a {\n\t\ttype filter hook egress device \"eth7\" priority filter;\n\t}\n\
                \tchain b {\n\t\ttype filter hook egress devices = { eth7, eth0 } priority filter;\n\t}\n}\n";
        let names = |frames: &FrameCondition<'_>| -> Vec<String> {
            Ruleset::new(&json, text)
                .dropping(frames)
                .into_iter()
                .map(|(chain, _)| chain.to_string())
                .collect()
        };
        assert_eq!(names(&FRAMES), ["netdev t b", "netdev t c"]);
        let bridge = FrameCondition {
            interface: "br0",
            is_bridge: true,
            ..FRAMES
        };
        assert_eq!(names(&bridge), ["bridge t input"]);
    }

    #[test]
    fn bits_of_addresses_and_addresses_of_ours_fit_some_frames() {
        let frames = FrameCondition {
            addresses: [
                "02:00:00:00:00:01".to_owned(),
                "03:00:00:00:00:02".to_owned(),
            ],
            ..FRAMES
        };
        let masked = |payload: Value| json!({ "op": "==", "left": { "&": [{ "payload": payload }, 1] }, "right": 1 });
        assert_eq!(
            frames.fit(&masked(json!({ "protocol": "ether", "field": "daddr" }))),
            Holds::Sometimes
        );
        assert_eq!(
            frames.fit(&masked(json!({ "base": "ll", "offset": 0, "len": 8 }))),
            Holds::Sometimes
        );
        assert_eq!(
            frames.fit(&masked(json!({ "base": "nh", "offset": 0, "len": 8 }))),
            Holds::Never
        );
        let address = |right: &str| {
            let left = json!({ "payload": { "protocol": "ether", "field": "daddr" } });
            frames.fit(&json!({ "op": "==", "left": left, "right": right }))
        };
        assert_eq!(
            [address("02:00:00:00:00:01"), address("02:00:00:00:00:09")],
            [Holds::Sometimes, Holds::Never]
        );
    }
}
