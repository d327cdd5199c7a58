//! Network topologies: the switch of each host, and the cables between switches.
//!
//! A [`Topology`] is a tree of switches with every host on exactly one of them (Patarasuk 2008 §2:
//! switched Ethernet forwards along a spanning tree, so the path between two hosts is unique). A
//! value of this type is valid by construction: no loop, no island, no name twice. It comes from a
//! file ([`Topology::parse`]), from a list of hosts ([`Topology::single_switch`]), from other
//! programs' data (`slurm`, `lldp`), or is one of the papers' test beds
//! ([`Topology::builtin`]).

mod build;
mod builtin;
#[doc(hidden)]
pub mod discovery;
mod error;
mod file;
#[doc(hidden)]
pub mod lldp;
#[doc(hidden)]
pub mod nodeset;
#[doc(hidden)]
mod ranks;
#[doc(hidden)]
pub mod slurm;
mod tree;

pub use build::ASSUMED_RATE_BITS_PER_SECOND;
pub use builtin::BUILTIN_NAMES;
pub use error::{TopologyError, TopologyProblem};
#[doc(hidden)]
pub use ranks::{Place, Uplink};
pub(crate) use tree::Walk;
pub use tree::{Imported, Topology};

/// Random topologies for property tests, made as text like those of users.
#[cfg(test)]
pub(crate) mod arbitrary {
    use super::Topology;
    use proptest::prelude::*;
    use proptest::sample::Index;

    pub(crate) fn topology(max_switches: usize, max_hosts: usize) -> impl Strategy<Value = Topology> {
        topology_text(max_switches, max_hosts)
            .prop_map(|text| Topology::parse(&text, "random").unwrap_or_else(|error| panic!("{error}\n{text}")))
    }

    pub(crate) fn topology_text(max_switches: usize, max_hosts: usize) -> impl Strategy<Value = String> {
        let switches = prop::collection::vec((any::<Index>(), any::<bool>(), any::<bool>()), 1..=max_switches);
        let shuffled = switches.prop_flat_map(|switches| {
            let order: Vec<usize> = (0..switches.len()).collect();
            (Just(switches), Just(order).prop_shuffle())
        });
        let hosts = prop::collection::vec(any::<Index>(), 1..=max_hosts);
        (shuffled, hosts).prop_map(|((switches, order), hosts)| {
            let mut links = vec![Vec::new(); switches.len()];
            for (id, (parent, from_below, from_both)) in switches.iter().enumerate().skip(1) {
                let (low, high) = (order[parent.index(id)], order[id]);
                if *from_below || *from_both {
                    links[low].push(high);
                }
                if !*from_below || *from_both {
                    links[high].push(low);
                }
            }
            let on: Vec<usize> = hosts.iter().map(|host| host.index(switches.len())).collect();
            write(&links, &on)
        })
    }

    fn write(links: &[Vec<usize>], switch_of: &[usize]) -> String {
        let mut text = String::from("schema = 1\n");
        for (id, links) in links.iter().enumerate() {
            let quoted = |names: Vec<String>| names.join(", ");
            let hosts = switch_of.iter().enumerate().filter(|host| *host.1 == id);
            let hosts = quoted(hosts.map(|(host, _)| format!("\"n{host}\"")).collect());
            let links = quoted(links.iter().map(|link| format!("\"s{link}\"")).collect());
            text += &format!("[[switch]]\nname = \"s{id}\"\nhosts = [{hosts}]\nlinks = [{links}]\n");
        }
        text
    }
}
