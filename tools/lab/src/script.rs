//! Input for `ip -batch`, `tc -batch` and `nft -f`, which make many changes in one run.

use crate::config::LabConfig;
use crate::names::{
    HOST_INTERFACE, Owner, bridge, host_port, mac_address, namespace_of, trunk_port,
};

const LOSS_TABLE: &str = "ethbcast_lab";

const LOSS_STEPS: f64 = 1e9;

pub(crate) fn add_host_namespaces(config: &LabConfig) -> String {
    config
        .topology
        .hosts()
        .iter()
        .map(|host| format!("netns add {}\n", namespace_of(&config.name, host)))
        .collect()
}

pub(crate) fn delete_namespaces(namespaces: &[String]) -> String {
    namespaces
        .iter()
        .map(|namespace| format!("netns delete {namespace}\n"))
        .collect()
}

/// Returns the `ip` batch for the switches' namespace that creates the switches and the cables,
/// with one end of each host's cable in its namespace.
///
/// A port's alias says where its cable goes (`ip link show`).
pub(crate) fn wire(config: &LabConfig) -> String {
    let mut text = String::new();
    let (topology, mtu) = (&config.topology, config.mtu_bytes);
    for switch in 0..topology.switches().len() {
        let (name, mac) = (bridge(switch), mac_address(Owner::Bridge, switch));
        text += &format!(
            "link add {name} address {mac} mtu {mtu} up type bridge stp_state 0 mcast_snooping 0\n"
        );
    }
    for (host, host_name) in topology.hosts().iter().enumerate() {
        let (port, port_mac) = (host_port(host), mac_address(Owner::HostPort, host));
        let (namespace, mac) = (
            namespace_of(&config.name, host_name),
            mac_address(Owner::Host, host),
        );
        text += &format!(
            "link add {port} address {port_mac} mtu {mtu} master {} up \
             type veth peer name {HOST_INTERFACE} netns {namespace} address {mac} mtu {mtu}\n",
            bridge(topology.switch_of(host))
        );
        text += &format!("link set {port} alias to-{host_name}\n");
    }
    for (cable, &(left, right)) in topology.cables().iter().enumerate() {
        let (here, there) = (trunk_port(left, right), trunk_port(right, left));
        let (here_mac, there_mac) = (
            mac_address(Owner::TrunkPort, 2 * cable),
            mac_address(Owner::TrunkPort, 2 * cable + 1),
        );
        text += &format!(
            "link add {here} address {here_mac} mtu {mtu} type veth peer name {there} address {there_mac} mtu {mtu}\n"
        );
        text += &format!("link set {here} master {} up\n", bridge(left));
        text += &format!("link set {there} master {} up\n", bridge(right));
    }
    text
}

/// Returns the `ip` batch for a host's namespace that sets its interfaces up.
///
/// The command that creates a veth pair cannot do this, because the pair is not joined yet
/// (ENOTCONN).
pub(crate) fn host_links_up() -> String {
    format!("link set lo up\nlink set {HOST_INTERFACE} up\n")
}

pub(crate) fn shape_host(config: &LabConfig, host: usize) -> String {
    shape(
        config,
        HOST_INTERFACE,
        config.host_queue_bytes,
        config.topology.host_rate(host),
    )
}

pub(crate) fn shape_switches(config: &LabConfig) -> String {
    let topology = &config.topology;
    let host_ports =
        (0..topology.hosts().len()).map(|host| (host_port(host), topology.host_rate(host)));
    let trunk_ports = topology.cables().iter().flat_map(|&(left, right)| {
        let rate = topology.cable_rate(left, right);
        [
            (trunk_port(left, right), rate),
            (trunk_port(right, left), rate),
        ]
    });
    let ports = host_ports.chain(trunk_ports);
    ports
        .map(|(port, rate)| shape(config, &port, config.switch_queue_bytes, rate))
        .collect()
}

fn shape(config: &LabConfig, interface: &str, queue_bytes: u32, rate: Option<u64>) -> String {
    let Some(rate) = rate.or(config.rate_bits_per_second) else {
        return String::new();
    };
    let burst = config.burst_bytes(rate);
    format!(
        "qdisc add dev {interface} root tbf rate {rate}bit burst {burst}b limit {queue_bytes}b\n"
    )
}

/// Returns the `nft` script for a host without loss that drops a fraction of arriving frames.
///
/// A loss above 0 is never rounded down to none.
pub(crate) fn lose(fraction: f64) -> String {
    format!(
        "table netdev {LOSS_TABLE} {{ chain ingress {{ \
         type filter hook ingress device \"{HOST_INTERFACE}\" priority 0; \
         {} counter drop; }}; }}\n",
        chance(fraction)
    )
}

pub(crate) fn chance(fraction: f64) -> String {
    let dropped_steps = (fraction * LOSS_STEPS).round().clamp(1.0, LOSS_STEPS - 1.0);
    format!("numgen random mod {LOSS_STEPS} < {dropped_steps}")
}

/// Returns the `nft` script for a host's namespace that replaces its loss.
///
/// One `nft` input is one transaction, so that there is no moment without loss. The first line
/// creates the table that the second deletes; the pair costs a wait of 10 ms in the kernel.
pub(crate) fn lose_instead(fraction: f64) -> String {
    let forget = format!("table netdev {LOSS_TABLE}\ndelete table netdev {LOSS_TABLE}\n");
    if fraction > 0.0 {
        forget + &lose(fraction)
    } else {
        forget
    }
}

pub(crate) fn lost_frames(ruleset: &str) -> u64 {
    counted_frames(ruleset, LOSS_TABLE)
}

pub(crate) fn counted_frames(ruleset: &str, table: &str) -> u64 {
    let opening = format!("table netdev {table} {{");
    let inside = ruleset.split_once(&opening).map_or("", |(_, after)| after);
    let inside = inside.split("\ntable ").next().unwrap_or_default();
    let counts = inside.split("counter packets ").skip(1);
    counts
        .filter_map(|after| after.split_whitespace().next()?.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use ethbcast_planning::topology::Topology;

    use super::*;

    fn two_switches() -> LabConfig {
        let text = "schema = 1\n\
                    [[switch]]\nname = \"left\"\nhosts = \"n[0-1]\"\nlinks = [\"right\"]\n\
                    [[switch]]\nname = \"right\"\nhosts = \"n[2-3]\"\n";
        LabConfig::new(Topology::parse(text, "two switches").expect("a good topology"))
    }

    #[test]
    fn the_wiring_is_one_line_per_switch_and_two_per_host() {
        let config = two_switches();
        let text = wire(&config);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2 + 2 * 4 + 3);
        assert_eq!(
            lines[0],
            "link add s0 address 02:eb:03:00:00:00 mtu 1500 up type bridge stp_state 0 mcast_snooping 0"
        );
        assert_eq!(
            lines[8],
            "link add p3 address 02:eb:01:00:00:03 mtu 1500 master s1 up \
             type veth peer name eth0 netns ethbcast-lab-n3 address 02:eb:00:00:00:03 mtu 1500"
        );
        assert_eq!(lines[9], "link set p3 alias to-n3");
        assert!(
            lines[10].starts_with("link add t0-1 ") && lines[10].contains(" peer name t1-0 "),
            "{}",
            lines[10]
        );
        assert_eq!(
            lines[11..],
            ["link set t0-1 master s0 up", "link set t1-0 master s1 up"]
        );
    }

    #[test]
    fn both_ends_of_every_cable_are_shaped_or_none_is() {
        let mut config = two_switches();
        assert_eq!(
            (shape_host(&config, 0), shape_switches(&config)),
            (String::new(), String::new())
        );
        config.rate_bits_per_second = Some(100_000_000);
        assert_eq!(
            shape_host(&config, 0),
            "qdisc add dev eth0 root tbf rate 100000000bit burst 6250b limit 1048576b\n"
        );
        let ports: Vec<_> = shape_switches(&config)
            .lines()
            .filter_map(|line| line.split(' ').nth(3).map(str::to_owned))
            .collect();
        assert_eq!(ports, ["p0", "p1", "p2", "p3", "t0-1", "t1-0"]);
        assert!(shape_switches(&config).contains("limit 262144b"));
    }

    #[test]
    fn a_loss_replaces_the_one_before_and_is_never_rounded_to_none_or_all() {
        assert_eq!(
            lose_instead(0.0),
            "table netdev ethbcast_lab\ndelete table netdev ethbcast_lab\n"
        );
        assert_eq!(lose_instead(0.5), lose_instead(0.0) + &lose(0.5));
        assert!(lose(0.01).contains("numgen random mod 1000000000 < 10000000 counter drop"));
        assert!(lose(1e-12).contains("< 1 counter"));
        assert!(lose(1.0 - 1e-12).contains("< 999999999 counter"));
    }

    #[test]
    fn lost_frames_are_read_from_the_rules_own_counter() {
        let table = |name: &str, frames: [u64; 2]| {
            let rules = frames
                .map(|frames| format!("\t\tcounter packets {frames} bytes 1020 drop\n"))
                .concat();
            format!("table netdev {name} {{\n\tchain c {{\n{rules}\t}}\n}}\n")
        };
        let ruleset =
            table("other", [1, 2]) + &table("ethbcast_lab", [17, 0]) + &table("third", [4, 5]);
        assert_eq!(lost_frames(&ruleset), 17);
        assert_eq!(counted_frames(&ruleset, "third"), 9);
        assert_eq!(counted_frames(&ruleset, "oth"), 0);
        assert_eq!(lost_frames(""), 0);
    }
}
