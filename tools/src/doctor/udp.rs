//! Checks by `ethbcast doctor` for transfers over UDP: ports, firewall rules, routes, socket
//! buffers.

use super::filter::input_chains;
use super::interface::instead;
use super::outside::{json_of, text_of};
use super::{Fault, Findings, Fix, of_interface, of_open, quoted};
use crate::args::WireArgs;
use crate::interface::chosen;
use ethbcast_collectives::membership::live::RingRoom;
use ethbcast_transport::packet::{
    Clock, Interface, OpenError, Over, Port, PortConfig, group_address,
};
use ethbcast_transport::wire::{HEADER_BYTES, group_mac};
use ethbcast_transport::{Link, MacAddr, Tuning};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread::sleep;
use std::time::Duration;

/// Time in which a frame to this host itself arrives.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(5);

/// Checks this host for a session over UDP; returns the interface that it would use.
pub fn check(args: &WireArgs, findings: &mut Findings) -> Option<Interface> {
    let found = Interface::find_over(
        chosen(args.interface.as_deref(), args.over, args.quiet).as_deref(),
        args.over,
    );
    let interface = match found {
        Ok(interface) => interface,
        Err(error) => {
            findings.add(of_interface(&error), &error, instead(&error));
            return None;
        }
    };
    check_way(&interface, findings);
    check_card(&interface.name, findings);
    match open(&interface, args) {
        Ok([mut speaker, mut listener]) => {
            check_room(&listener, findings);
            check_arrival(&mut speaker, &mut listener, args, findings);
        }
        Err(error) => {
            let words = match &error {
                OpenError::PortTaken { .. } => {
                    "leave out :PORT of --over, or end the process that has it (`ss -lunp`)"
                }
                OpenError::GroupPortTaken { .. } => {
                    "end the process that has it (`ss -lunp`), or give all hosts --ether-type HEX"
                }
                _ => "ip address show",
            };
            findings.add(of_open(&error), &error, Fix::Words(words.to_owned()));
        }
    }
    Some(interface)
}

/// Opens a sender's port and a receiver's, for a group that has no other hosts.
fn open(interface: &Interface, args: &WireArgs) -> Result<[Port; 2], OpenError> {
    let mut config = PortConfig::new(args.ether_type);
    config.group = Some(group_mac(&format!("doctor/{}", std::process::id())));
    config.receive_ring_bytes = wanted(interface).bytes(interface.mtu_bytes);
    (config.over, config.is_called) = (args.over, true);
    let listener = Port::open(interface, config)?;
    config.is_called = false;
    config.over = Over::Udp {
        port: None,
        unicast: args.over.is_unicast(),
    };
    let mut speaker = Port::open(interface, config)?;
    let own = listener.interface().ip();
    if args.over.is_unicast() {
        speaker.name_peers(own.as_slice());
    }
    Ok([speaker, listener])
}

fn wanted(interface: &Interface) -> RingRoom {
    RingRoom::for_session(Tuning::default().feed_frames_for(interface.mtu_bytes - HEADER_BYTES))
}

/// Checks whether the card cuts joined datagrams, which else the processor does.
fn check_card(name: &str, findings: &mut Findings) {
    const FEATURE: &str = "tx-udp-segmentation";
    let text = match text_of("ethtool", &["-k", name]) {
        Ok(text) => text,
        Err(why) => return findings.skip(format!("the card: {why}")),
    };
    let state = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(FEATURE)?.strip_prefix(':'));
    match state.map(str::trim) {
        Some("off") => {
            let what = format!("{name} leaves it to the processor to cut datagrams");
            let fix = format!("ethtool -K {} {FEATURE} on", quoted(name));
            findings.add(Fault::Offload, what, Fix::Command(fix));
        }
        Some(state) if state.starts_with("off") => findings.skip(format!(
            "speed: the card of {name} cannot cut datagrams ({FEATURE} is {state}), so the processor does"
        )),
        _ => {}
    }
}

/// Checks that the system gives a receiver room for all that a session may have under way.
fn check_room(listener: &Port, findings: &mut Findings) {
    let interface = listener.interface();
    let (room, has) = (
        wanted(interface),
        listener.room_frames().unwrap_or(u64::MAX),
    );
    if has < room.credit_frames {
        let what = format!(
            "the system keeps {has} frames that arrive, and a session may have {} under way: it goes slower",
            room.credit_frames
        );
        let fix = format!(
            "sysctl -w net.core.rmem_max={}",
            room.bytes(interface.mtu_bytes)
        );
        findings.add(Fault::Limit, what, Fix::Command(fix));
    }
}

/// Checks that a frame for all arrives at this host itself.
fn check_arrival(
    speaker: &mut Port,
    listener: &mut Port,
    args: &WireArgs,
    findings: &mut Findings,
) {
    let clock = Clock::start();
    let began = clock.now();
    let port = group_address(MacAddr::BROADCAST, args.ether_type).port();
    let mut frame = [
        group_mac(&format!("doctor/{}", std::process::id())),
        speaker.interface().mac,
    ]
    .map(MacAddr::octets)
    .concat();
    frame.extend(args.ether_type.octets());
    frame.extend([0; 64]);
    let mut is_sent = false;
    let written = speaker.send(began, |buffer| {
        (!std::mem::replace(&mut is_sent, true)).then(|| {
            buffer[..frame.len()].copy_from_slice(&frame);
            frame.len()
        })
    });
    let name = speaker.interface().name.clone();
    if written.is_err() || speaker.counters().frames_given_up > 0 {
        let what = format!("this host lets no frame for all leave {name} by UDP, to port {port}");
        let fix = "see the rules on the way out (`nft list ruleset`) and the routes (`ip -4 route`, `ip -6 route`)";
        return findings.add(Fault::Filter, what, Fix::Words(fix.to_owned()));
    }
    let mut has_come = false;
    while !has_come && clock.now().since(began) < PATIENCE {
        listener.receive(|arrived| has_come |= arrived[14..] == frame[14..]);
        sleep(PAUSE);
    }
    if !has_come {
        let what = format!(
            "a frame for all, which leaves {name} by UDP, does not come to port {port} of this host"
        );
        let ports = format!("udp dport {{ {port}, 49152-65535 }} accept");
        let lines = input_chains()
            .into_iter()
            .map(|chain| format!("nft 'insert rule {chain} {ports}'"));
        let fix = lines.collect::<Vec<_>>().join(" && ");
        let words = || {
            Fix::Words(format!(
                "a rule that lets {ports} pass, where this host's firewall is set up"
            ))
        };
        findings.add(
            Fault::Filter,
            what,
            if fix.is_empty() {
                words()
            } else {
                Fix::Command(fix)
            },
        );
    }
}

/// Checks that datagrams to the interface's own network leave there: else replies from it are
/// dropped, too, where the system checks that (rp_filter).
fn check_way(interface: &Interface, findings: &mut Findings) {
    let (Some(own), Some(bits)) = (interface.ip(), interface.prefix_bits()) else {
        return;
    };
    let (family, other) = match own {
        // Each interface has a network of this prefix.
        IpAddr::V6(own) if own.is_unicast_link_local() => return,
        IpAddr::V6(own) => ("-6", other_ipv6(own, bits).to_string()),
        IpAddr::V4(own) => ("-4", other_ipv4(own, bits).to_string()),
    };
    let name = &interface.name;
    let route = match json_of("ip", &["-j", family, "route", "get", &other]) {
        Ok(route) => route,
        Err(why) => return findings.skip(format!("the way to the network of {name}: {why}")),
    };
    let Some(by) = route[0]["dev"].as_str().filter(|by| by != name) else {
        return;
    };
    let is_strict = |of: &str| {
        fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{of}/rp_filter"))
            .is_ok_and(|text| text.trim() == "1")
    };
    let drops = if own.is_ipv4() && (is_strict("all") || is_strict(name)) {
        ", and replies from there are dropped"
    } else {
        ""
    };
    let what = format!("what goes to {other}, in the network of {name}, leaves by {by}{drops}");
    findings.add(
        Fault::Interface,
        what,
        Fix::Command(format!("ethbcast doctor --over udp -i {by}")),
    );
}

/// Returns any other host of a network.
fn other_ipv4(own: Ipv4Addr, bits: u8) -> Ipv4Addr {
    let first = own.to_bits() >> (32 - bits) << (32 - bits) | 1;
    Ipv4Addr::from_bits(first + u32::from(first == own.to_bits()))
}

/// Returns any other host of a network.
fn other_ipv6(own: Ipv6Addr, bits: u8) -> Ipv6Addr {
    let first = own.to_bits() >> (128 - bits) << (128 - bits) | 1;
    Ipv6Addr::from_bits(first + u128::from(first == own.to_bits()))
}
