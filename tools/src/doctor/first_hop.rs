//! The first hop: does what the interface leads to take frames as long as its own MTU allows?

use super::{Fault, Findings, Fix, quoted};
use ethbcast_transport::packet::{FrameSender, Interface};
use ethbcast_transport::wire::EtherType;

/// Tries it with frames to this host itself; the largest MTU that passes, if that is not the interface's own.
pub fn check(interface: &Interface, ether_type: EtherType, findings: &mut Findings) -> Option<usize> {
    let Interface { name, mtu_bytes, .. } = interface;
    let sender = match FrameSender::open(interface) {
        Ok(sender) => sender,
        Err(error) => {
            findings.skip(format!("how long frames leave {name}: {error}"));
            return None;
        }
    };
    let passes = sender.first_hop(ether_type)?;
    let what = format!("{name} has an MTU of {mtu_bytes}, and what it leads to takes frames of {passes} at most");
    let own = quoted(name);
    let words = format!(
        "ip link set {own} mtu {passes}, the same on all hosts, or raise what the interface leads to: the MTU of the \
         other end of a veth (`ip link`), the burst of a token bucket (`tc qdisc show dev {own}`)"
    );
    findings.add(Fault::Path, what, Fix::Words(words));
    Some(passes)
}
