//! Check for nftables rules that drop our frames: only chains of the families netdev and bridge see
//! them.

mod condition;
mod ruleset;

use super::outside::{json_of, text_of};
use super::{Fault, Findings, Fix};
use crate::args::DoctorArgs;
use condition::FrameCondition;
use ethbcast_transport::packet::Interface;
use ethbcast_transport::wire::group_mac;
use ruleset::Ruleset;
use serde_json::Value;

/// Checks for rules that drop frames on this interface; `link` is iproute2's description of it.
pub fn check(interface: &Interface, args: &DoctorArgs, link: &Value, findings: &mut Findings) {
    let listed = json_of("nft", &["-j", "list", "ruleset"]);
    // Some versions omit a chain's interface from the JSON output.
    let (json, text) = match (listed, text_of("nft", &["list", "ruleset"])) {
        (Ok(json), Ok(text)) => (json, text),
        (Err(why), _) | (_, Err(why)) => return findings.skip(format!("rules that drop frames: {why}")),
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
        let what = format!("the chain {chain} of nftables drops {how} of EtherType {ether_type} on {}", interface.name);
        let fix = format!("nft insert rule {chain} ether type 0x{:04x} accept", ether_type.number());
        findings.add(Fault::Filter, what, Fix::Command(fix));
    }
}
