//! Check of the link: carrier, rate, duplex, MTU and membership in another interface.

use super::outside::json_of;
use super::{Fault, Findings, Fix, quoted};
use ethbcast_collectives::communicator::MIN_MTU_BYTES;
use ethbcast_transport::packet::Interface;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Kernel's folder of interfaces.
const SHOWN: &str = "/sys/class/net";
/// Effect of Wi-Fi on frames, to be read after "is Wi-Fi, ".
pub const WIFI: &str = "which carries frames to all hosts at its lowest rate and acknowledges none of them";
const USUAL_MTU_BYTES: usize = 1500;
const JUMBO_MTU_BYTES: usize = 9000;
/// Rate above which hosts cannot use the link fully with the standard MTU.
const FAST_MBIT: u64 = 25_000;
const SLOW_MBIT: u64 = 1000;

/// Checks the link, and returns iproute2's description of it.
pub fn check(interface: &Interface, findings: &mut Findings) -> Value {
    let name = &interface.name;
    let link = match json_of("ip", &["-j", "-d", "link", "show", "dev", name]) {
        Ok(links) => links[0].clone(),
        Err(why) => {
            findings.skip(format!("link, bridge, bond: {why}"));
            Value::Null
        }
    };
    let has_flag = |wanted: &str| link["flags"].as_array().is_some_and(|flags| flags.iter().any(|flag| flag == wanted));
    if has_flag("NO-CARRIER") {
        let fix = format!("see to cable, transceiver and switch port, until `ip link show {name}` says LOWER_UP");
        findings.add(Fault::Carrier, format!("{name} has no link: no cable, or its other end is off"), Fix::Words(fix));
    }
    if !link["xdp"].is_null() {
        findings.skip(format!("what the XDP program on {name} does with frames: `ip link show {name}`"));
    }
    if is_wifi(interface) {
        let what = format!("{name} is Wi-Fi, {WIFI}");
        findings.add(Fault::Wifi, what, Fix::Words("use a cable, or send by --via chain".to_owned()));
    }
    promiscuity(name, &link, findings);
    mtu(interface, findings);
    rate(interface, findings);
    membership(name, &link, findings);
    link
}

/// Checks for promiscuous mode, which only a bridge port needs.
fn promiscuity(name: &str, link: &Value, findings: &mut Findings) {
    let count = link["promiscuity"].as_u64().unwrap_or_default();
    if count == 0 || !link["master"].is_null() {
        return;
    }
    let is_set = link["flags"].as_array().is_some_and(|flags| flags.iter().any(|flag| flag == "PROMISC"));
    let what = format!("{name} takes every frame that passes, also those for other hosts");
    let own = quoted(name);
    let fix = match is_set {
        true => Fix::Command(format!("ip link set {own} promisc off")),
        // Requested by a program's socket, which the flag does not show.
        false => Fix::Words(
            "end the program that looks at its frames (tcpdump, wireshark; `ss -0p` lists them), or take the macvlan \
             interfaces off it (`ip link`)"
                .to_owned(),
        ),
    };
    findings.add(Fault::Promiscuous, what, fix);
}

fn mtu(interface: &Interface, findings: &mut Findings) {
    let Interface { name, mtu_bytes, .. } = interface;
    let least = usize::from(MIN_MTU_BYTES);
    let what = if *mtu_bytes < least {
        format!("the MTU of {name} is {mtu_bytes}: at least {least} are needed")
    } else if *mtu_bytes < USUAL_MTU_BYTES {
        format!("the MTU of {name} is {mtu_bytes}: a sender with the usual {USUAL_MTU_BYTES} turns this host away")
    } else {
        return;
    };
    findings.add(Fault::Mtu, what, Fix::Command(format!("ip link set {} mtu {USUAL_MTU_BYTES}", quoted(name))));
}

/// Whether an interface is Wi-Fi, where the kernel shows it.
pub fn is_wifi(interface: &Interface) -> bool {
    is_wifi_by(Path::new(SHOWN), interface)
}

fn is_wifi_by(shown: &Path, interface: &Interface) -> bool {
    let own = shown.join(&interface.name);
    // It may be another network namespace's.
    let is_own = fs::read_to_string(own.join("ifindex")).is_ok_and(|text| text.trim() == interface.index.to_string());
    is_own && ["wireless", "phy80211"].iter().any(|what| own.join(what).exists())
}

pub fn megabits_per_second(interface: &Interface) -> Option<u64> {
    let Interface { name, index, mac, .. } = interface;
    let read = |what: &str| fs::read_to_string(format!("/sys/class/net/{name}/{what}")).ok();
    let says = |what: &str, own: String| read(what).is_some_and(|text| text.trim() == own);
    // /sys may belong to another network namespace.
    let is_own = says("ifindex", index.to_string()) && says("address", mac.to_string());
    // A driver that does not know the rate reports -1 or an error.
    read("speed").filter(|_| is_own)?.trim().parse().ok().filter(|&mbit| mbit > 0)
}

fn rate(interface: &Interface, findings: &mut Findings) {
    let Interface { name, index, mac, mtu_bytes } = interface;
    let read = |what: &str| fs::read_to_string(format!("/sys/class/net/{name}/{what}")).ok();
    let says = |what: &str, own: String| read(what).is_some_and(|text| text.trim() == own);
    if !says("ifindex", index.to_string()) || !says("address", mac.to_string()) {
        return findings.skip("rate and duplex: /sys shows another network namespace, or is not there");
    }
    let Some(mbit) = megabits_per_second(interface) else {
        return findings.skip(format!("rate and duplex: the driver of {name} does not tell"));
    };
    let own = quoted(name);
    if mbit < SLOW_MBIT {
        let fix = format!("ethtool -s {own} speed {SLOW_MBIT} duplex full autoneg on");
        findings.add(Fault::Speed, format!("{name} runs at {mbit} Mbit/s"), Fix::Command(fix));
    }
    if read("duplex").is_some_and(|text| text.trim() == "half") {
        let fix = format!("ethtool -s {own} duplex full autoneg on");
        findings.add(Fault::Duplex, format!("{name} runs at half duplex"), Fix::Command(fix));
    }
    if mbit >= FAST_MBIT && *mtu_bytes <= USUAL_MTU_BYTES {
        let what = format!(
            "{name} runs at {mbit} Mbit/s with an MTU of {mtu_bytes}: 6 times as many frames as with \
             {JUMBO_MTU_BYTES}, more than processors can handle at that rate"
        );
        findings.add(Fault::Mtu, what, Fix::Command(format!("ip link set {own} mtu {JUMBO_MTU_BYTES}")));
    }
}

/// Checks that the interface is not a port of another one, which receives its frames.
fn membership(name: &str, link: &Value, findings: &mut Findings) {
    let Some(master) = link["master"].as_str() else { return };
    let kind = link["linkinfo"]["info_slave_kind"].as_str().unwrap_or("interface");
    // A VRF concerns IP only.
    if kind == "vrf" {
        return;
    }
    let what = format!("{name} is a port of the {kind} {master}, which takes its frames");
    let fix = match kind {
        // Removing the port could disconnect the host.
        "bridge" | "bond" | "team" => Fix::Command(format!("ethbcast doctor -i {}", quoted(master))),
        _ => Fix::Words(format!("choose another with -i, or take it out: ip link set {} nomaster", quoted(name))),
    };
    findings.add(Fault::Member, what, fix);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_transport::MacAddr;

    #[test]
    fn wi_fi_is_known_by_what_the_kernel_shows_of_the_interface_itself() {
        let shown = tempfile::tempdir().expect("a directory");
        let interface = |name: &str, index| {
            let mac = MacAddr::new(2, 0, 0, 0, 0, 1);
            Interface { name: name.to_owned(), index, mac, mtu_bytes: 1500 }
        };
        for (name, has) in [("wlan0", "wireless"), ("wlp2s0", "phy80211"), ("eth0", "queues")] {
            fs::create_dir_all(shown.path().join(name).join(has)).expect("room");
            fs::write(shown.path().join(name).join("ifindex"), "3\n").expect("room");
        }
        let is_wifi = |name, index| is_wifi_by(shown.path(), &interface(name, index));
        assert_eq!(["wlan0", "wlp2s0", "eth0", "none"].map(|name| is_wifi(name, 3)), [true, true, false, false]);
        assert!(!is_wifi("wlan0", 4), "another network namespace's");
    }
}
