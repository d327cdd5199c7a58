//! Rules of nftables that drop the frames: tables of the families netdev and bridge, the only ones that see them.

use super::{Code, Findings, json_of};
use ethbcast_transport::wire::EtherType;
use serde_json::Value;

/// Looks for rules that drop frames of this EtherType on this interface.
pub fn check(interface: &str, ether_type: EtherType, findings: &mut Findings) {
    match json_of("nft", &["-j", "list", "ruleset"]) {
        Ok(ruleset) => {
            for (what, fix) in dropping(&ruleset, interface, ether_type) {
                findings.add(Code::Filter, what, fix);
            }
        }
        Err(why) => findings.skip(format!("rules that drop frames: {why}")),
    }
}

/// What drops our frames, in words, and the command that removes it.
fn dropping(ruleset: &Value, interface: &str, ether_type: EtherType) -> Vec<(String, String)> {
    let all = ruleset["nftables"].as_array().cloned().unwrap_or_default();
    let of =
        |kind: &'static str| all.iter().filter_map(move |entry| entry.get(kind)).filter(|entry| sees_frames(entry));
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or("?").to_owned();
    let is_elsewhere = |chain: &Value| {
        let devices = &chain["dev"];
        let named = |device: &Value| device == interface;
        let listed = devices.as_array().is_some_and(|list| list.iter().any(named));
        !devices.is_null() && !named(devices) && !listed
    };
    let mut found = Vec::new();
    for chain in of("chain").filter(|chain| chain["policy"] == "drop" && !is_elsewhere(chain)) {
        let [family, table, name] = ["family", "table", "name"].map(|name| text(chain, name));
        let fix = format!("nft 'chain {family} {table} {name} {{ policy accept; }}'");
        found.push((format!("the chain {family} {table} {name} drops what it does not accept"), fix));
    }
    for rule in of("rule") {
        let [family, table, name] = ["family", "table", "chain"].map(|name| text(rule, name));
        let own = |chain: &&Value| {
            [&chain["family"], &chain["table"], &chain["name"]] == [&rule["family"], &rule["table"], &rule["chain"]]
        };
        if of("chain").find(own).is_some_and(is_elsewhere) || !drops(&rule["expr"], interface, ether_type) {
            continue;
        }
        let handle = rule["handle"].as_u64().unwrap_or(0);
        let what = format!("a rule of the chain {family} {table} {name} drops frames of EtherType {ether_type}");
        found.push((what, format!("nft delete rule {family} {table} {name} handle {handle}")));
    }
    found
}

fn sees_frames(entry: &Value) -> bool {
    entry["family"] == "netdev" || entry["family"] == "bridge"
}

/// Whether a rule ends in a drop that frames of ours can come to.
fn drops(expressions: &Value, interface: &str, ether_type: EtherType) -> bool {
    let Some(list) = expressions.as_array() else { return false };
    let can_match = |condition: &Value| can_be(condition, interface, ether_type);
    list.iter().any(|expression| expression.get("drop").is_some())
        && list.iter().filter_map(|expression| expression.get("match")).all(can_match)
}

/// Whether a condition can be true of one of our frames; of what is not known here, that it cannot.
fn can_be(condition: &Value, interface: &str, ether_type: EtherType) -> bool {
    let (left, right) = (&condition["left"], &condition["right"]);
    let is_ours = |value: &Value| {
        let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
        let hexadecimal = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let decimal = value.as_str().and_then(|text| text.parse().ok());
        value.as_u64().or(hexadecimal).or(decimal) == Some(ether_type.number().into())
    };
    let any = |holds: &dyn Fn(&Value) -> bool| match right["set"].as_array() {
        Some(set) => set.iter().any(holds),
        None => holds(right),
    };
    let holds = match (left["payload"]["field"].as_str(), left["meta"]["key"].as_str()) {
        (Some("type"), None) if left["payload"]["protocol"] == "ether" => any(&is_ours),
        (None, Some("protocol")) => any(&is_ours),
        (None, Some("pkttype")) => return true,
        (None, Some("iif" | "iifname" | "oif" | "oifname")) => any(&|value| value == interface),
        _ => return false,
    };
    if condition["op"] == "!=" { !holds } else { holds }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ruleset(policy: &str, device: &str, conditions: &[Value], verdict: &str) -> Value {
        let mut expressions: Vec<_> = conditions.iter().map(|condition| json!({ "match": condition })).collect();
        expressions.push(json!({ verdict: null }));
        json!({ "nftables": [
            { "metainfo": { "version": "1.0.6" } },
            { "chain": { "family": "netdev", "table": "t", "name": "c", "dev": device, "policy": policy } },
            { "rule": { "family": "netdev", "table": "t", "chain": "c", "handle": 7, "expr": expressions } },
            { "chain": { "family": "inet", "table": "i", "name": "input", "policy": "drop" } },
        ] })
    }

    #[test]
    fn a_rule_that_can_drop_our_frames_is_found_with_the_command_that_removes_it_and_no_other() {
        let found = |ruleset: &Value| dropping(ruleset, "eth0", EtherType::DEFAULT);
        let by_type = |op: &str, right: Value| json!({ "op": op, "left": { "payload": { "protocol": "ether", "field": "type" } }, "right": right });
        let ours = by_type("==", json!("0x88b5"));
        let all = found(&ruleset("accept", "eth0", std::slice::from_ref(&ours), "drop"));
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].1, "nft delete rule netdev t c handle 7");
        let meta = json!({ "op": "==", "left": { "meta": { "key": "protocol" } }, "right": 0x88b5 });
        let multicast = json!({ "op": "==", "left": { "meta": { "key": "pkttype" } }, "right": "multicast" });
        let set = by_type("==", json!({ "set": ["arp", "0x88b5"] }));
        for dropped in [&[meta][..], &[multicast], &[set], &[by_type("!=", json!("ip"))], &[]] {
            assert_eq!(found(&ruleset("accept", "eth0", dropped, "drop")).len(), 1, "{dropped:?}");
        }
        let address =
            json!({ "op": "==", "left": { "payload": { "protocol": "ip", "field": "saddr" } }, "right": "::" });
        for spared in [&[address][..], &[by_type("==", json!("ip"))], &[by_type("!=", json!("0x88b5"))]] {
            assert!(found(&ruleset("accept", "eth0", spared, "drop")).is_empty(), "{spared:?}");
        }
        assert!(found(&ruleset("accept", "eth1", std::slice::from_ref(&ours), "drop")).is_empty(), "elsewhere");
        assert!(found(&ruleset("accept", "eth0", &[ours], "accept")).is_empty());
        let policy = found(&ruleset("drop", "eth0", &[], "accept"));
        assert_eq!(policy.len(), 1);
        assert!(policy[0].1.contains("policy accept"), "{policy:?}");
    }
}
