//! Tests of the check for nftables rules, on rule sets as `nft --json` prints them.

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

/// Returns how frames are dropped by a base chain `c` with this policy and these rules, and a chain
/// `sub`.
fn dropping(policy: &str, rules: &[Value], sub: &[Value]) -> Vec<&'static str> {
    let mut entries = vec![json!({ "chain": { "family": "netdev", "table": "t", "name": "c", "hook": "ingress",
        "policy": policy } })];
    for (chain, rules) in [("c", rules), ("sub", sub)] {
        let rule = |expr: &Value| json!({ "rule": { "family": "netdev", "table": "t", "chain": chain, "expr": expr } });
        entries.extend(rules.iter().map(rule));
    }
    let text = "table netdev t {\n\tchain c {\n\t\ttype filter hook ingress device \"eth0\" priority filter;\n\t}\n}\n";
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
        assert_eq!(dropping("accept", &[json!([condition, drop])], &[]), ["the frames"], "{condition}");
    }
    for condition in [
        matching("type", "==", json!("arp")),
        matching("type", "!=", number.clone()),
        matching("iifname", "==", json!("eth1")),
        matching("length", ">", json!(1500)),
        matching("mark", "==", json!(1)),
    ] {
        assert_eq!(dropping("accept", &[json!([condition, drop])], &[]), none, "{condition}");
    }
    for condition in [
        matching("random", "<", json!(50)),
        matching("pkttype", "==", json!("multicast")),
        matching("length", ">", json!(1400)),
        json!({ "limit": { "rate": 100, "per": "second", "inv": true } }),
    ] {
        assert_eq!(dropping("accept", &[json!([condition, drop])], &[]), ["some frames"], "{condition}");
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
    assert_eq!(dropping("accept", &[json!([ours, accept]), json!([drop])], &[]), none, "the first verdict counts");
    assert_eq!(dropping("accept", std::slice::from_ref(&jump), &[json!([ours, drop])]), ["the frames"]);
    assert_eq!(dropping("drop", std::slice::from_ref(&jump), &[json!([ours, accept])]), none);
    assert_eq!(dropping("accept", &[], &[json!([ours, drop])]), none, "nobody jumps there");
    let back = json!([{ "return": null }]);
    assert_eq!(dropping("accept", &[jump], &[back, json!([drop])]), none);
    // nftables refuses circular jumps; evaluation must end nevertheless.
    assert_eq!(dropping("accept", &[json!([{ "jump": { "target": "c" } }])], &[]), none);
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
        Ruleset::new(&json, text).dropping(frames).into_iter().map(|(chain, _)| chain.to_string()).collect()
    };
    assert_eq!(names(&FRAMES), ["netdev t b", "netdev t c"]);
    let bridge = FrameCondition { interface: "br0", is_bridge: true, ..FRAMES };
    assert_eq!(names(&bridge), ["bridge t input"]);
}

#[test]
fn bits_of_addresses_and_addresses_of_ours_fit_some_frames() {
    let frames =
        FrameCondition { addresses: ["02:00:00:00:00:01".to_owned(), "03:00:00:00:00:02".to_owned()], ..FRAMES };
    let masked = |payload: Value| json!({ "op": "==", "left": { "&": [{ "payload": payload }, 1] }, "right": 1 });
    assert_eq!(frames.fit(&masked(json!({ "protocol": "ether", "field": "daddr" }))), Holds::Sometimes);
    assert_eq!(frames.fit(&masked(json!({ "base": "ll", "offset": 0, "len": 8 }))), Holds::Sometimes);
    assert_eq!(frames.fit(&masked(json!({ "base": "nh", "offset": 0, "len": 8 }))), Holds::Never);
    let address = |right: &str| {
        let left = json!({ "payload": { "protocol": "ether", "field": "daddr" } });
        frames.fit(&json!({ "op": "==", "left": left, "right": right }))
    };
    assert_eq!([address("02:00:00:00:00:01"), address("02:00:00:00:00:09")], [Holds::Sometimes, Holds::Never]);
}
