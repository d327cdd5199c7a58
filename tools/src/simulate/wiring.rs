//! The simulated network: switches, hosts and cables of a topology, each cable with its own or the
//! default rate.

use super::settings::Conditions;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::MacAddr;
use ethbcast_transport::sim::{HostSettings, Network};
use std::time::Duration;

/// A network built from a topology, with the topology's ids.
#[derive(Debug)]
pub struct Wiring {
    pub network: Network,
    /// Names at both ends of each cable, in the simulator's order.
    pub ends: Vec<[String; 2]>,
}

impl Wiring {
    /// Builds `topology` under `conditions`. Every host accepts frames for `group`, and the message
    /// occupies a cable for `transfer`.
    pub fn new(topology: &Topology, conditions: &Conditions, transfer: Duration, group: MacAddr) -> Wiring {
        let mut network = Network::new()
            .with_mtu_bytes(usize::from(conditions.mtu_bytes))
            .with_overhead_bytes(conditions.overhead_bytes() as usize);
        let cable = |known: Option<u64>| {
            let rate_bits_per_second = known.unwrap_or(conditions.rate_bits_per_second);
            Conditions { rate_bits_per_second, ..conditions.clone() }.cable()
        };
        let settings = HostSettings { groups: vec![group], ..conditions.host(transfer) };
        let mut ends = Vec::new();
        let switches: Vec<_> = topology.switches().iter().map(|_| network.add_switch(conditions.switch())).collect();
        for (host, name) in topology.hosts().iter().enumerate() {
            let switch = topology.switch_of(host);
            network.add_host(switches[switch], cable(topology.host_rate(host)), settings.clone());
            ends.push([name.clone(), topology.switches()[switch].clone()]);
        }
        for &(left, right) in topology.cables() {
            let cable = cable(topology.cable_rate(left, right));
            network.connect(switches[left], switches[right], cable).expect("the switches of a topology form a tree");
            ends.push([left, right].map(|switch| topology.switches()[switch].clone()));
        }
        Wiring { network, ends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_transport::wire::group_mac;

    #[test]
    fn every_cable_of_the_topology_is_there_with_the_names_at_its_ends() {
        let topology = Topology::builtin("fig9-5").expect("a test bed");
        let conditions = Conditions {
            rate_bits_per_second: 100_000_000,
            mtu_bytes: 1500,
            loss: 0.0,
            delay: Duration::ZERO,
            lab: false,
            seed: 1,
            processing: None,
            naps: true,
        };
        let wiring = Wiring::new(&topology, &conditions, Duration::ZERO, group_mac("test"));
        assert_eq!((wiring.network.hosts(), wiring.ends.len()), (32, 32 + 3));
        assert_eq!(wiring.ends[wiring.network.cable_of(6).index()], ["n6", "s2"]);
        assert_eq!(wiring.ends[32..], [["s0", "s1"], ["s1", "s2"], ["s2", "s3"]]);
    }
}
