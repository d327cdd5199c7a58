//! Rules of nftables that drop the frames: chains of the families netdev and bridge, the only ones that see them.

mod condition;
mod ruleset;

use super::outside::{json_of, text_of};
use super::{Fault, Findings, Fix};
use crate::args::DoctorArgs;
use condition::Frames;
use ethbcast_transport::packet::Interface;
use ethbcast_transport::wire::group_mac;
use ruleset::Ruleset;
use serde_json::Value;

/// Looks for rules that drop the group's frames on this interface; `link` is what iproute2 knows of that.
pub fn check(interface: &Interface, args: &DoctorArgs, link: &Value, findings: &mut Findings) {
    let listed = json_of("nft", &["-j", "list", "ruleset"]);
    // Some versions leave out of the JSON which interface a chain is for.
    let (json, text) = match (listed, text_of("nft", &["list", "ruleset"])) {
        (Ok(json), Ok(text)) => (json, text),
        (Err(why), _) | (_, Err(why)) => return findings.skip(format!("rules that drop frames: {why}")),
    };
    let ether_type = args.wire.ether_type;
    let frames = Frames {
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
