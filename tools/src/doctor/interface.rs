//! Checks by `ethbcast doctor` of the network interface: state, permission, receive ring, queueing
//! discipline.

use super::outside::{json_of, text_of};
use super::{Fault, Findings, Fix, of_interface, of_open, quoted};
use crate::args::WireArgs;
use crate::interface::chosen;
use ethbcast_transport::packet::{
    Capture, FrameSender, Interface, InterfaceError, OpenError, Over,
};
use ethbcast_transport::wire::EtherType;
use nix::sys::statvfs::{FsFlags, statvfs};
use serde_json::Value;

pub fn check(args: &WireArgs, findings: &mut Findings) -> Option<Interface> {
    match Interface::find(chosen(args.interface.as_deref(), Over::Ethernet, args.quiet).as_deref())
    {
        Ok(interface) => {
            socket(&interface, args, findings);
            Some(interface)
        }
        Err(error) => {
            findings.add(of_interface(&error), &error, instead(&error));
            None
        }
    }
}

pub fn instead(error: &InterfaceError) -> Fix {
    let up = |name: &str| Fix::Safe(format!("ip link set {} up", quoted(name)));
    let choose = |name: &str| Fix::Command(format!("ethbcast doctor -i {}", quoted(name)));
    match error {
        InterfaceError::Down { name } => up(name),
        InterfaceError::Ambiguous { usable } => choose(&usable[0]),
        InterfaceError::Unknown { .. } | InterfaceError::NotEthernet { .. } => {
            match Interface::find(None) {
                Ok(other) => choose(&other.name),
                Err(InterfaceError::Ambiguous { usable }) => choose(&usable[0]),
                Err(_) => Fix::Words("look for one with `ip link`, and bring it up".to_owned()),
            }
        }
        InterfaceError::NoneUsable { known } => {
            let is_off = |name: &&String| {
                matches!(
                    Interface::find(Some(name)),
                    Err(InterfaceError::Down { .. })
                )
            };
            match known.iter().filter(is_off).collect::<Vec<_>>()[..] {
                [only] => up(only),
                // Several interfaces are possible; none is brought up without a request.
                _ => Fix::Words(
                    "look for one with `ip link`, and bring it up with `ip link set NAME up`"
                        .to_owned(),
                ),
            }
        }
        _ => Fix::Words("look at it with `ip link`".to_owned()),
    }
}

fn permit() -> Fix {
    let own = std::env::current_exe().unwrap_or("ethbcast".into());
    if statvfs(&own).is_ok_and(|disk| disk.flags().contains(FsFlags::ST_NOSUID)) {
        let words = "run it as root, or copy it to a file system that is not mounted nosuid, and setcap it there";
        return Fix::Words(words.to_owned());
    }
    Fix::Command(format!(
        "setcap cap_net_raw+ep {}",
        quoted(&own.to_string_lossy())
    ))
}

fn socket(interface: &Interface, args: &WireArgs, findings: &mut Findings) {
    let Err(error) = Capture::open(interface, args.ether_type, &[]) else {
        return;
    };
    let fix = match &error {
        // A process without the permission inherits a socket.
        OpenError::Permission { .. } if std::env::var_os("ETHBCAST_PORT").is_some() => {
            return findings.skip(
                "the permission for raw frames: $ETHBCAST_PORT is set, so another process hands over the socket",
            );
        }
        OpenError::Permission { .. } => permit(),
        OpenError::Memory { .. } => {
            Fix::Words("end other programs, or raise the container's limit".to_owned())
        }
        _ => Fix::Command("modprobe af_packet".to_owned()),
    };
    findings.add(of_open(&error), &error, fix);
}

/// Size that is filled in 0.3 ms at 10 Gbit/s, during which a processor may be busy.
const MIN_SLOTS: u64 = 256;

pub fn check_ring(name: &str, findings: &mut Findings) {
    let text = match text_of("ethtool", &["-g", name]) {
        Ok(text) => text,
        // Virtual interfaces have no ring.
        Err(why) if why.contains("not supported") => return,
        Err(why) => return findings.skip(format!("the card's ring: {why}")),
    };
    let Some((most, now)) = slots(&text) else {
        return;
    };
    if now < MIN_SLOTS && now < most {
        let what = format!("the receive ring of {name} has {now} slots, and could have {most}");
        findings.add(
            Fault::Ring,
            what,
            Fix::Command(format!("ethtool -G {} rx {most}", quoted(name))),
        );
    }
}

/// Returns the maximum and the present number of slots: the first RX line of either part.
fn slots(text: &str) -> Option<(u64, u64)> {
    let (most, now) = text.split_once("Current hardware settings:")?;
    let first = |part: &str| {
        part.lines()
            .find_map(|line| line.trim().strip_prefix("RX:")?.trim().parse().ok())
    };
    Some((first(most)?, first(now)?))
}

const MIN_BITS_PER_SECOND: u64 = 100_000_000;

pub fn check_queue(name: &str, findings: &mut Findings) {
    let all = match json_of("tc", &["-j", "qdisc", "show", "dev", name]) {
        Ok(all) => all,
        Err(why) => return findings.skip(format!("queues on the way out: {why}")),
    };
    for qdisc in all.as_array().into_iter().flatten() {
        if let Some(does) = holds_back(qdisc) {
            let fix = format!("tc qdisc del dev {} root", quoted(name));
            findings.add(
                Fault::Shaper,
                format!("a queue of {name} {does}"),
                Fix::Command(fix),
            );
        }
        if qdisc["kind"] == "clsact" || qdisc["kind"] == "ingress" {
            findings.skip(format!(
                "filters of tc: `tc filter show dev {name} ingress` and `egress` show them"
            ));
        }
    }
}

/// Describes a discipline that does more than queue frames.
fn holds_back(qdisc: &Value) -> Option<String> {
    match qdisc["kind"].as_str()? {
        // tc counts bytes.
        "tbf" => {
            let bits = qdisc["options"]["rate"].as_u64()?.saturating_mul(8);
            (bits < MIN_BITS_PER_SECOND)
                .then(|| format!("(tbf) lets {} Mbit/s pass", bits as f64 / 1e6))
        }
        "netem" => Some("(netem) delays or loses frames on purpose".to_owned()),
        _ => None,
    }
}

/// Tests the path with frames to this host itself; returns the largest MTU that passes, if it
/// differs from the interface's own.
pub fn check_first_hop(
    interface: &Interface,
    ether_type: EtherType,
    findings: &mut Findings,
) -> Option<usize> {
    let Interface {
        name, mtu_bytes, ..
    } = interface;
    let sender = match FrameSender::open(interface, Over::Ethernet) {
        Ok(sender) => sender,
        Err(error) => {
            findings.skip(format!("how long frames leave {name}: {error}"));
            return None;
        }
    };
    let passes = sender.first_hop(ether_type)?;
    let what = format!(
        "{name} has an MTU of {mtu_bytes}, but its other end takes frames of {passes} at most"
    );
    let own = quoted(name);
    let words = format!(
        "ip link set {own} mtu {passes}, the same on all hosts, or raise what the interface leads to: the MTU of the \
         other end of a veth (`ip link`), the burst of a token bucket (`tc qdisc show dev {own}`)"
    );
    findings.add(Fault::Path, what, Fix::Words(words));
    Some(passes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_ring_is_read_as_ethtool_writes_it() {
        let text = "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t4096\nRX Mini:\tn/a\nTX:\t\t4096\n\
                    Current hardware settings:\nRX:\t\t64\nRX Mini:\tn/a\nTX:\t\t512\n";
        assert_eq!(slots(text), Some((4096, 64)));
        assert_eq!(slots(&text.replace("RX:\t\t64", "RX:\t\tn/a")), None);
        assert_eq!(slots(""), None);
    }

    #[test]
    fn a_narrow_shaper_and_a_trials_losses_are_distinguished_from_usual_queues() {
        let tbf = |rate: u64| json!({ "kind": "tbf", "options": { "rate": rate } });
        assert_eq!(
            holds_back(&tbf(625_000)).as_deref(),
            Some("(tbf) lets 5 Mbit/s pass")
        );
        assert_eq!(holds_back(&tbf(12_500_000)), None);
        assert_eq!(
            holds_back(&json!({ "kind": "fq_codel", "options": {} })),
            None
        );
        assert!(
            holds_back(&json!({ "kind": "netem", "options": { "loss-random": { "loss": 0.05 } } }))
                .is_some()
        );
    }
}
