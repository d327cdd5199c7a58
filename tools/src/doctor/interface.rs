//! The interface: is it there, on, plugged in, fast, whole, and may this process use it?

use super::{Code, Findings, json_of};
use crate::args::DoctorArgs;
use ethbcast_collectives::communicator::LEAST_MTU_BYTES;
use ethbcast_transport::packet::{Capture, Interface, InterfaceError, OpenError};
use serde_json::Value;
use std::fs;

/// What Ethernet carries everywhere.
const USUAL_MTU_BYTES: usize = 1500;
/// From this rate on frames of the usual MTU limit hosts.
const FAST_MBIT: u64 = 25_000;
/// Below this something is wrong with a cable of today.
const SLOW_MBIT: u64 = 1000;

/// Looks at the interface that a session would use; its name, if there is one to go on with.
pub fn check(args: &DoctorArgs, findings: &mut Findings) -> Option<String> {
    let interface = match Interface::find(args.interface.as_deref()) {
        Ok(interface) => interface,
        Err(InterfaceError::Down { name }) => {
            findings.add(Code::Down, format!("{name} is switched off"), format!("ip link set {name} up"));
            return Some(name);
        }
        Err(error) => {
            findings.add(Code::Interface, &error, "ip link");
            return None;
        }
    };
    socket(&interface, args, findings);
    let link = link(&interface.name, findings);
    mtu(&interface, findings);
    speed(&interface, findings);
    if let Some(link) = link {
        membership(&interface.name, &link, findings);
    }
    Some(interface.name)
}

/// Whether a packet socket with a ring can be had, on this interface and for these frames.
fn socket(interface: &Interface, args: &DoctorArgs, findings: &mut Findings) {
    match Capture::open(interface, args.ether_type, &[]) {
        Ok(_) => {}
        // A server hands ports over to those who may not open one.
        Err(OpenError::Permission { .. }) if std::env::var_os("ETHBCAST_PORT").is_some() => {}
        Err(error @ OpenError::Permission { .. }) => {
            let own = std::env::current_exe().map_or("ethbcast".into(), |path| path.display().to_string());
            findings.add(Code::Capability, &error, format!("setcap cap_net_raw+ep {own}"));
        }
        Err(error) => findings.add(Code::Kernel, &error, "modprobe af_packet"),
    }
}

/// What iproute2 knows of the link; looks at its carrier on the way.
fn link(name: &str, findings: &mut Findings) -> Option<Value> {
    let links = match json_of("ip", &["-j", "-d", "link", "show", "dev", name]) {
        Ok(links) => links,
        Err(why) => {
            findings.skip(format!("carrier, bridge, bond: {why}"));
            return None;
        }
    };
    let link = links.get(0)?.clone();
    let flags = link["flags"].as_array().cloned().unwrap_or_default();
    if flags.iter().any(|flag| flag == "NO-CARRIER") {
        findings.add(Code::Carrier, format!("{name} has no carrier: no cable, or its other end is off"), {
            format!("see to the cable and the switch's port, then: ip link show {name}")
        });
    }
    Some(link)
}

fn mtu(interface: &Interface, findings: &mut Findings) {
    let Interface { name, mtu_bytes, .. } = interface;
    let least = usize::from(LEAST_MTU_BYTES);
    let fix = format!("ip link set {name} mtu {USUAL_MTU_BYTES}");
    if *mtu_bytes < least {
        findings.add(Code::Mtu, format!("the MTU of {name} is {mtu_bytes}: at least {least} are needed"), fix);
    } else if *mtu_bytes < USUAL_MTU_BYTES {
        let times = USUAL_MTU_BYTES as f64 / *mtu_bytes as f64;
        let what = format!("the MTU of {name} is {mtu_bytes}: {times:.1} times as many frames as with the usual 1500");
        findings.add(Code::Mtu, what, fix);
    }
}

/// Rate and duplex, where the kernel shows them: `/sys` may be another network namespace's.
fn speed(interface: &Interface, findings: &mut Findings) {
    let Interface { name, index, mac, mtu_bytes } = interface;
    let read = |what: &str| fs::read_to_string(format!("/sys/class/net/{name}/{what}")).ok();
    let says = |what: &str, own: String| read(what).is_some_and(|text| text.trim() == own);
    if !says("ifindex", index.to_string()) || !says("address", mac.to_string()) {
        return findings.skip("speed and duplex: /sys shows another network namespace");
    }
    let Some(mbit) = read("speed").and_then(|text| text.trim().parse::<u64>().ok()).filter(|&mbit| mbit > 0) else {
        return findings.skip(format!("speed: the driver of {name} does not tell"));
    };
    let autoneg = format!("ethtool -s {name} autoneg on");
    if mbit < SLOW_MBIT {
        findings.add(Code::Speed, format!("{name} runs at {mbit} Mbit/s"), &autoneg);
    }
    if read("duplex").is_some_and(|text| text.trim() == "half") {
        findings.add(Code::Speed, format!("{name} runs at half duplex"), &autoneg);
    }
    if mbit >= FAST_MBIT && *mtu_bytes <= USUAL_MTU_BYTES {
        let what = format!("{name} runs at {mbit} Mbit/s with an MTU of {mtu_bytes}: hosts cannot fill it, by 5 times");
        findings.add(Code::Mtu, what, format!("ip link set {name} mtu 9000"));
    }
}

/// Whether it is a port of another interface, which takes its frames.
fn membership(name: &str, link: &Value, findings: &mut Findings) {
    let Some(master) = link["master"].as_str() else { return };
    let kind = link["linkinfo"]["info_slave_kind"].as_str().unwrap_or("interface");
    // A VRF has to do with IP alone.
    if kind == "vrf" {
        return;
    }
    let what = format!("{name} is a port of the {kind} {master}: use that with -i {master}, or take {name} out of it");
    findings.add(Code::Member, what, format!("ip link set {name} nomaster"));
}
