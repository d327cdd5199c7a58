//! Checks by `ethbcast doctor` of machine, link and network card: clock, carrier, rate, MTU,
//! offloads, queues.

use super::outside::{json_of, text_of};
use super::{Fault, Findings, Fix, quoted};
use ethbcast_collectives::communicator::MIN_MTU_BYTES;
use ethbcast_transport::packet::Interface;
use ethbcast_transport::wire::EtherType;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Vendor names in a virtual machine's firmware, with their cloud: these networks are of layer 3,
/// and carry neither other EtherTypes nor multicast.
const CLOUDS: [(&str, &str); 5] = [
    ("Amazon EC2", "Amazon's"),
    ("Google Compute Engine", "Google's"),
    ("Microsoft Corporation Virtual Machine", "Microsoft's"),
    ("OracleCloud.com", "Oracle's"),
    ("Alibaba Cloud", "Alibaba's"),
];
const FIRMWARE: [&str; 3] = ["sys_vendor", "product_name", "chassis_asset_tag"];

/// Date 2026-01-01, before which no correct clock can be.
const NOT_BEFORE: Duration = Duration::from_secs(1_767_225_600);

pub fn check(link: &Value, findings: &mut Findings) {
    let says = |what: &&str| fs::read_to_string(format!("/sys/class/dmi/id/{what}")).ok();
    let firmware: Vec<String> = FIRMWARE
        .iter()
        .filter_map(says)
        .map(|text| text.trim().to_owned())
        .collect();
    if let Some(cloud) = cloud(&firmware.join(" "), link) {
        let what = format!(
            "this machine is in {cloud} cloud, whose network carries IP and no other frames"
        );
        let words = "send among machines of your own; or by an overlay of layer 2 between these, then -i ov0: ip link \
                     add name ov0 type vxlan id 1 dev IFACE dstport 4789, and `bridge fdb append` for each other host";
        findings.add(Fault::Cloud, what, Fix::Words(words.to_owned()));
    }
    clock(SystemTime::now(), findings);
}

/// Returns the cloud of this firmware, unless the interface is virtual, such as an overlay.
fn cloud(firmware: &str, link: &Value) -> Option<&'static str> {
    let is_made = !link["linkinfo"]["info_kind"].is_null();
    let found = CLOUDS.iter().find(|(words, _)| firmware.contains(words));
    found.filter(|_| !is_made).map(|&(_, cloud)| cloud)
}

/// Checks the clock, because files get the sender's times, by which later changes are detected.
fn clock(now: SystemTime, findings: &mut Findings) {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    if since < NOT_BEFORE {
        let what = format!(
            "the clock says {} days since 1970, and this program is younger",
            since.as_secs() / 86_400
        );
        let fix = "timedatectl set-ntp true || date -s \"$(ssh OTHER date -Is)\"";
        findings.add(Fault::Clock, what, Fix::Command(fix.to_owned()));
    }
}

const SHOWN: &str = "/sys/class/net";
/// Effect of Wi-Fi on frames, to be read after "is Wi-Fi, ".
pub const WIFI: &str =
    "which carries frames to all hosts at its lowest rate and acknowledges none of them";
const USUAL_MTU_BYTES: usize = 1500;
const JUMBO_MTU_BYTES: usize = 9000;
/// Rate above which hosts cannot use the link fully with the standard MTU.
const FAST_MBIT: u64 = 25_000;
const SLOW_MBIT: u64 = 1000;

pub fn check_link(interface: &Interface, findings: &mut Findings) -> Value {
    let name = &interface.name;
    let link = match json_of("ip", &["-j", "-d", "link", "show", "dev", name]) {
        Ok(links) => links[0].clone(),
        Err(why) => {
            findings.skip(format!("link, bridge, bond: {why}"));
            Value::Null
        }
    };
    let has_flag = |wanted: &str| {
        link["flags"]
            .as_array()
            .is_some_and(|flags| flags.iter().any(|flag| flag == wanted))
    };
    if has_flag("NO-CARRIER") {
        let fix = format!(
            "check cable, transceiver and switch port, until `ip link show {name}` says LOWER_UP"
        );
        findings.add(
            Fault::Carrier,
            format!("{name} has no link: no cable, or its other end is off"),
            Fix::Words(fix),
        );
    }
    if !link["xdp"].is_null() {
        findings.skip(format!(
            "what the XDP program on {name} does with frames: `ip link show {name}`"
        ));
    }
    if is_wifi(interface) {
        let what = format!("{name} is Wi-Fi, {WIFI}");
        findings.add(
            Fault::Wifi,
            what,
            Fix::Words("use a cable, or send by --via chain".to_owned()),
        );
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
    let is_set = link["flags"]
        .as_array()
        .is_some_and(|flags| flags.iter().any(|flag| flag == "PROMISC"));
    let what = format!("{name} takes every frame that passes, also those for other hosts");
    let own = quoted(name);
    let fix = match is_set {
        true => Fix::Command(format!("ip link set {own} promisc off")),
        // A program's socket requested the mode, which the flag does not show.
        false => Fix::Words(
            "end the program that looks at its frames (tcpdump, wireshark; `ss -0p` lists them), or take the macvlan \
             interfaces off it (`ip link`)"
                .to_owned(),
        ),
    };
    findings.add(Fault::Promiscuous, what, fix);
}

fn mtu(interface: &Interface, findings: &mut Findings) {
    let Interface {
        name, mtu_bytes, ..
    } = interface;
    let least = usize::from(MIN_MTU_BYTES);
    let what = if *mtu_bytes < least {
        format!("the MTU of {name} is {mtu_bytes}: at least {least} are needed")
    } else if *mtu_bytes < USUAL_MTU_BYTES {
        format!(
            "the MTU of {name} is {mtu_bytes}: a sender with the usual {USUAL_MTU_BYTES} turns this host away"
        )
    } else {
        return;
    };
    findings.add(
        Fault::Mtu,
        what,
        Fix::Command(format!(
            "ip link set {} mtu {USUAL_MTU_BYTES}",
            quoted(name)
        )),
    );
}

pub fn is_wifi(interface: &Interface) -> bool {
    is_wifi_by(Path::new(SHOWN), interface)
}

fn is_wifi_by(shown: &Path, interface: &Interface) -> bool {
    let own = shown.join(&interface.name);
    // It may be another network namespace's.
    let is_own = fs::read_to_string(own.join("ifindex"))
        .is_ok_and(|text| text.trim() == interface.index.to_string());
    is_own
        && ["wireless", "phy80211"]
            .iter()
            .any(|what| own.join(what).exists())
}

pub fn megabits_per_second(interface: &Interface) -> Option<u64> {
    let Interface {
        name, index, mac, ..
    } = interface;
    let read = |what: &str| fs::read_to_string(format!("/sys/class/net/{name}/{what}")).ok();
    let says = |what: &str, own: String| read(what).is_some_and(|text| text.trim() == own);
    // /sys may belong to another network namespace.
    let is_own = says("ifindex", index.to_string()) && says("address", mac.to_string());
    // A driver that does not know the rate reports -1 or an error.
    read("speed")
        .filter(|_| is_own)?
        .trim()
        .parse()
        .ok()
        .filter(|&mbit| mbit > 0)
}

/// Returns the rate of an interface in bits per second, if it is that of a cable: the driver of a
/// virtual interface reports a number that limits nothing.
pub fn cable_rate(interface: &Interface) -> Option<u64> {
    let device = Path::new(SHOWN).join(&interface.name).join("device");
    let megabits = megabits_per_second(interface).filter(|_| device.exists());
    megabits.map(|megabits: u64| megabits.saturating_mul(1_000_000))
}

fn rate(interface: &Interface, findings: &mut Findings) {
    let Interface {
        name,
        index,
        mac,
        mtu_bytes,
    } = interface;
    let read = |what: &str| fs::read_to_string(format!("/sys/class/net/{name}/{what}")).ok();
    let says = |what: &str, own: String| read(what).is_some_and(|text| text.trim() == own);
    if !says("ifindex", index.to_string()) || !says("address", mac.to_string()) {
        return findings
            .skip("rate and duplex: /sys shows another network namespace, or is not there");
    }
    let Some(mbit) = megabits_per_second(interface) else {
        return findings.skip(format!(
            "rate and duplex: the driver of {name} does not report them"
        ));
    };
    let own = quoted(name);
    if mbit < SLOW_MBIT {
        let fix = format!("ethtool -s {own} speed {SLOW_MBIT} duplex full autoneg on");
        findings.add(
            Fault::Speed,
            format!("{name} runs at {mbit} Mbit/s"),
            Fix::Command(fix),
        );
    }
    if read("duplex").is_some_and(|text| text.trim() == "half") {
        let fix = format!("ethtool -s {own} duplex full autoneg on");
        findings.add(
            Fault::Duplex,
            format!("{name} runs at half duplex"),
            Fix::Command(fix),
        );
    }
    if mbit >= FAST_MBIT && *mtu_bytes <= USUAL_MTU_BYTES {
        let what = format!(
            "{name} runs at {mbit} Mbit/s with an MTU of {mtu_bytes}: 6 times as many frames as with \
             {JUMBO_MTU_BYTES}, more than processors can handle at that rate"
        );
        findings.add(
            Fault::Mtu,
            what,
            Fix::Command(format!("ip link set {own} mtu {JUMBO_MTU_BYTES}")),
        );
    }
}

/// Checks that the interface is not a port of another one, which receives its frames.
fn membership(name: &str, link: &Value, findings: &mut Findings) {
    let Some(master) = link["master"].as_str() else {
        return;
    };
    let kind = link["linkinfo"]["info_slave_kind"]
        .as_str()
        .unwrap_or("interface");
    // A VRF concerns IP only.
    if kind == "vrf" {
        return;
    }
    let what = format!("{name} is a port of the {kind} {master}, which takes its frames");
    let fix = match kind {
        // Removing the port could disconnect the host.
        "bridge" | "bond" | "team" => {
            Fix::Command(format!("ethbcast doctor -i {}", quoted(master)))
        }
        _ => Fix::Words(format!(
            "choose another with -i, or take it out: ip link set {} nomaster",
            quoted(name)
        )),
    };
    findings.add(Fault::Member, what, fix);
}

/// Limit on interrupt coalescing, whose delay adds up at every hop of a chain.
const MAX_WAIT_MICROS: u64 = 250;
/// Number of receive queues above which the frames still use a single one.
const ONE_QUEUE: usize = 1;

pub fn check_card(name: &str, ether_type: EtherType, findings: &mut Findings) {
    judge_setting("-n", name, findings, |text, findings| {
        rules(name, ether_type, text, findings)
    });
    judge_setting("-c", name, findings, |text, findings| {
        interrupts(name, text, findings)
    });
    judge_setting("-k", name, findings, |text, findings| {
        offloads(name, text, findings)
    });
    // Virtual interfaces such as veth and bridges have no card.
    if Path::new(&format!("/sys/class/net/{name}/device")).exists() {
        queues(name, findings);
    }
}

fn judge_setting(
    option: &str,
    name: &str,
    findings: &mut Findings,
    judge: impl FnOnce(&str, &mut Findings),
) {
    match text_of("ethtool", &[option, name]) {
        Ok(text) => judge(&text, findings),
        Err(why) if why.contains("not supported") => {}
        Err(why) => findings.skip(format!("the card: {why}")),
    }
}

/// Checks for rules on frames of our EtherType, which may drop them or steer them to another queue.
fn rules(name: &str, ether_type: EtherType, text: &str, findings: &mut Findings) {
    for Rule {
        number,
        proto,
        mask,
        action,
    } in Rule::all(text)
    {
        let is_ours = (u64::from(ether_type.number()) ^ proto) & !mask & 0xffff == 0;
        if is_ours && action == "Drop" {
            let what = format!(
                "rule {number} of the card of {name} drops frames of EtherType 0x{proto:04x}"
            );
            let fix = format!("ethtool -N {} delete {number}", quoted(name));
            findings.add(Fault::Steering, what, Fix::Command(fix));
        }
    }
}

struct Rule<'a> {
    number: u64,
    proto: u64,
    mask: u64,
    action: &'a str,
}

impl Rule<'_> {
    fn all(text: &str) -> Vec<Rule<'_>> {
        let parts = text.split("Filter: ").skip(1);
        parts
            .filter(|part| part.contains("Rule Type: Raw Ethernet"))
            .filter_map(|part| {
                let after =
                    |name: &str| part.lines().find_map(|line| line.trim().strip_prefix(name));
                let number = part.lines().next()?.trim().parse().ok()?;
                let (proto, mask) = after("Ethertype: ")?.split_once(" mask: ")?;
                let hex =
                    |text: &str| u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok();
                Some(Rule {
                    number,
                    proto: hex(proto)?,
                    mask: hex(mask)?,
                    action: after("Action: ")?.trim(),
                })
            })
            .collect()
    }
}

fn interrupts(name: &str, text: &str, findings: &mut Findings) {
    let is_adaptive = text.lines().any(|line| line.starts_with("Adaptive RX: on"));
    let micros = text
        .lines()
        .find_map(|line| line.strip_prefix("rx-usecs:")?.trim().parse::<u64>().ok());
    if let Some(micros) = micros.filter(|&micros| !is_adaptive && micros > MAX_WAIT_MICROS) {
        let what = format!("{name} says that frames have come {micros} us later");
        findings.add(
            Fault::Interrupts,
            what,
            Fix::Command(format!("ethtool -C {} rx-usecs 50", quoted(name))),
        );
    }
}

/// Checks for offloads that deliver unwanted frames; those for TCP and UDP do not affect our
/// frames.
fn offloads(name: &str, text: &str, findings: &mut Findings) {
    let is_on = |feature: &str| {
        let state = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(feature)?.strip_prefix(':'));
        state.is_some_and(|state| state.split_whitespace().next() == Some("on"))
    };
    for (feature, does) in [
        ("rx-all", "hands over frames whose check sequence is wrong"),
        ("loopback", "receives its own frames, and nothing else"),
    ] {
        if is_on(feature) {
            let fix = format!("ethtool -K {} {feature} off", quoted(name));
            findings.add(
                Fault::Offload,
                format!("{name} {does} ({feature} is on)"),
                Fix::Command(fix),
            );
        }
    }
}

/// Notes that a card with several queues puts frames of an unknown EtherType into one.
fn queues(name: &str, findings: &mut Findings) {
    let Ok(entries) = std::fs::read_dir(format!("/sys/class/net/{name}/queues")) else {
        return;
    };
    let queues = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-"))
        .count();
    if queues > ONE_QUEUE {
        findings.skip(format!(
            "which processor takes the frames: of the {queues} queues of {name} all come to one; `grep {name} \
             /proc/interrupts` shows it, and `ps -eLo psr,pcpu,comm --sort -pcpu` what else runs there"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_transport::MacAddr;
    use serde_json::json;

    #[test]
    fn a_cloud_is_known_by_its_firmware_unless_frames_go_by_an_overlay() {
        let azure = "Microsoft Corporation Virtual Machine 7783-7084-3265-9085-8269-3286-77";
        assert_eq!(cloud(azure, &Value::Null), Some("Microsoft's"));
        assert_eq!(
            cloud(
                "Amazon EC2 m7i.large Amazon EC2",
                &json!({ "ifname": "ens5" })
            ),
            Some("Amazon's")
        );
        assert_eq!(
            cloud(azure, &json!({ "linkinfo": { "info_kind": "vxlan" } })),
            None
        );
        assert_eq!(cloud("Dell Inc. PowerEdge R650", &Value::Null), None);
        assert_eq!(
            cloud("QEMU Standard PC (Q35 + ICH9, 2009)", &Value::Null),
            None
        );
    }

    #[test]
    fn a_clock_that_has_lost_its_battery_is_found_and_one_of_today_is_not() {
        let count = |now| {
            let mut findings = Findings::default();
            clock(now, &mut findings);
            findings.count()
        };
        assert_eq!(count(UNIX_EPOCH + Duration::from_secs(86_400)), 1);
        assert_eq!(count(SystemTime::now()), 0);
    }

    #[test]
    fn wi_fi_is_known_by_what_the_kernel_shows_of_the_interface_itself() {
        let shown = tempfile::tempdir().expect("a directory");
        let interface = |name: &str, index| {
            let mac = MacAddr::new(2, 0, 0, 0, 0, 1);
            Interface {
                name: name.to_owned(),
                index,
                mac,
                mtu_bytes: 1500,
            }
        };
        for (name, has) in [
            ("wlan0", "wireless"),
            ("wlp2s0", "phy80211"),
            ("eth0", "queues"),
        ] {
            fs::create_dir_all(shown.path().join(name).join(has)).expect("room");
            fs::write(shown.path().join(name).join("ifindex"), "3\n").expect("room");
        }
        let is_wifi = |name, index| is_wifi_by(shown.path(), &interface(name, index));
        assert_eq!(
            ["wlan0", "wlp2s0", "eth0", "none"].map(|name| is_wifi(name, 3)),
            [true, true, false, false]
        );
        assert!(!is_wifi("wlan0", 4), "another network namespace's");
    }

    #[test]
    fn a_port_of_a_bridge_or_bond_is_found_with_the_interface_to_use_and_one_of_a_vrf_is_none() {
        let port_of = |kind: Option<&str>, master: Option<&str>| {
            let link = json!({ "ifname": "eth0", "master": master, "linkinfo": { "info_slave_kind": kind } });
            found(|findings| membership("eth0", &link, findings))
        };
        let member = |fix: &str| vec![("E-MEMBER".to_owned(), fix.to_owned())];
        for (kind, master) in [("bridge", "br0"), ("bond", "bond0"), ("team", "team0")] {
            assert_eq!(
                port_of(Some(kind), Some(master)),
                member(&format!("ethbcast doctor -i {master}"))
            );
        }
        let out = "choose another with -i, or take it out: ip link set eth0 nomaster";
        assert_eq!(port_of(None, Some("new0")), member(out));
        assert_eq!(port_of(Some("vrf"), Some("blue")), []);
        assert_eq!(port_of(None, None), []);
    }

    fn found(judge: impl FnOnce(&mut Findings)) -> Vec<(String, String)> {
        let mut findings = Findings::default();
        judge(&mut findings);
        let said = findings.json(None);
        let text = |finding: &serde_json::Value, name: &str| {
            finding[name].as_str().expect("a text").to_owned()
        };
        let list = said["findings"].as_array().expect("a list");
        list.iter()
            .map(|one| (text(one, "code"), text(one, "fix")))
            .collect()
    }

    #[test]
    fn a_rule_that_drops_the_ether_type_is_distinguished_from_all_others() {
        let rule = |number: u32, proto: &str, mask: &str, action: &str| {
            format!(
                "Filter: {number}\n\tRule Type: Raw Ethernet\n\tSrc MAC addr: 00:00:00:00:00:00 mask: \
                 FF:FF:FF:FF:FF:FF\n\tDest MAC addr: 00:00:00:00:00:00 mask: FF:FF:FF:FF:FF:FF\n\tEthertype: {proto} \
                 mask: {mask}\n\tAction: {action}\n\n"
            )
        };
        let text = format!(
            "4 RX rings available\nTotal 3 rules\n\nFilter: 9\n\tRule Type: TCP over IPv4\n\tAction: Drop\n\n{}{}{}{}",
            rule(1021, "0x88B5", "0x0", "Drop"),
            rule(1022, "0x88B6", "0x0", "Drop"),
            rule(1023, "0x88B5", "0x0", "Direct to queue 3"),
            rule(7, "0x0", "0xFFFF", "Drop"),
        );
        let ether_type = "88b5".parse().expect("one");
        let found = found(|findings| rules("eth0", ether_type, &text, findings));
        let fix = |number: u32| {
            (
                "E-STEERING".to_owned(),
                format!("ethtool -N eth0 delete {number}"),
            )
        };
        assert_eq!(found, [fix(1021), fix(7)]);
    }

    #[test]
    fn interrupts_that_wait_long_and_frames_that_came_wrong_are_found() {
        let waits = |text: &str| found(|findings| interrupts("eth0", text, findings)).len();
        assert_eq!(
            waits("Coalesce parameters for eth0:\nAdaptive RX: off  TX: off\nrx-usecs:\t3000\n"),
            1
        );
        assert_eq!(waits("Adaptive RX: on  TX: on\nrx-usecs:\t3000\n"), 0);
        assert_eq!(
            waits("Adaptive RX: n/a  TX: n/a\nrx-usecs:\t8\nrx-frames:\tn/a\n"),
            0
        );
        let wrong = |text: &str| found(|findings| offloads("eth0", text, findings));
        let fix = (
            "E-OFFLOAD".to_owned(),
            "ethtool -K eth0 rx-all off".to_owned(),
        );
        assert_eq!(
            wrong("Features for eth0:\nrx-checksumming: on\nrx-all: on\nloopback: off [fixed]\n"),
            [fix]
        );
        assert_eq!(wrong("rx-all: off [requested on]\nloopback: off\n"), []);
    }
}
